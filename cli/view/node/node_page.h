// Nodes for people: their holds, history and measurements.
#ifndef CLI_VIEW_NODE_NODE_PAGE_H_
#define CLI_VIEW_NODE_NODE_PAGE_H_

#include <string>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "proto/node.pb.h"

namespace paceline {

// Everything about a node.
std::string NodePage(const v1::Node& node, absl::Time now, const PageStyle& style);

// One row per node, with who holds it since when. Wide: also GPU, labels, address and version.
std::string NodeTable(const v1::ListNodesResponse& nodes, absl::Time now, const PageStyle& style);

// "a is CORDONED: cordoned by ann: its fan is loud", without a newline.
std::string NodeLine(const v1::Node& node, const PageStyle& style);

// The same, plus jobs that still have trainers there: "a DRAINING: ...; still there: job-1".
std::string DrainLine(const v1::Node& node, const PageStyle& style);

// What a drain does, or would do, to each job.
std::string DrainText(const v1::DrainNodeResponse& response, bool dry_run, const PageStyle& style);

std::string HistoryTable(const v1::NodeHistory& history, absl::Time now, const PageStyle& style);

// Each measurement beside its medians; or why there are none.
std::string CheckTable(const v1::NodeCheckResult& result, const PageStyle& style);

std::string AutomationPage(const v1::AutomationStatus& automation, absl::Time now,
                           const PageStyle& style);

}  // namespace paceline

#endif  // CLI_VIEW_NODE_NODE_PAGE_H_
