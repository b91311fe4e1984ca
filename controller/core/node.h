// A node's life, as far as the controller can see it.
//
//            a worker says hello
//   (new) ─────────────────────────▶ READY ◀────────────┐
//                       disconnected   │                 │ a report, or hello
//                         or silent    ▼                 │
//                                 UNREACHABLE ───────────┘
//
// UNREACHABLE takes no new ranks; those it has are neither moved nor given up.
#ifndef CONTROLLER_CORE_NODE_H_
#define CONTROLLER_CORE_NODE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"

namespace paceline {

// Reports come every second; so long without one makes a node UNREACHABLE.
inline constexpr absl::Duration kNodeSilence = absl::Seconds(10);

enum class NodeState { kReady, kUnreachable };

// What a worker says of its node when it connects. proto/worker.proto, Hello.
struct NodeFacts {
  NodeName name;
  std::string uid;  // Of the worker's state directory.
  int cpus = 0;
  int64_t memory_bytes = 0;
  std::vector<std::string> gpus;
  std::string os;
  std::map<std::string, std::string> labels;
  std::string address;
  std::string metrics_address;
  int slots = 0;
  std::string version;
};

struct Node {
  NodeFacts facts;
  NodeState state = NodeState::kUnreachable;
  std::string reason;
  absl::Time registered;   // Wall.
  absl::Time last_report;  // Wall.
  absl::Time silence_deadline =
      absl::InfiniteFuture();  // Steady; when READY ends without a report.
};

// A worker said hello. Returns true if anything but times changed.
bool WelcomeNode(Node& node, NodeFacts facts, Moment now);

// A report arrived. Returns true if the state changed.
bool HearFromNode(Node& node, Moment now);

// Its worker's session has ended. Returns true if the state changed.
bool DisconnectNode(Node& node);

// What the passing of time does. Returns true if the state changed.
bool TickNode(Node& node, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_H_
