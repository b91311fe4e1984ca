// paceline node list
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/text/table.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

grpc::Status FetchNodes(Program& program, v1::ListNodesResponse* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().ListNodes(request, &page);
    if (!status.ok()) return status;
    nodes->mutable_nodes()->MergeFrom(page.nodes());
    nodes->set_revision(page.revision());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

std::string NodeTable(const v1::ListNodesResponse& nodes, absl::Time now, const PageStyle& style) {
  Table table({{"NAME"},
               {"STATE"},
               {"SLOTS", true},
               {"GPUS", true},
               {"CPUS", true},
               {"MEMORY", true},
               {"REPORT", true},
               {"JOBS"},
               {"REASON"}});
  for (const v1::Node& node : nodes.nodes()) {
    const absl::Time report = TimeOf(node.has_last_report_time(), node.last_report_time());
    table.Add({node.name(),
               {StateText(node.state()), StateColour(node.state())},
               absl::StrCat(node.slots_used(), "/", node.slots()),
               absl::StrCat(node.gpus_used(), "/", node.hardware().gpus_size()),
               absl::StrCat(node.hardware().cpus()),
               BytesText(node.hardware().memory_bytes()),
               node.has_last_report_time() ? DurationText(absl::ToDoubleSeconds(now - report)) : "",
               absl::StrJoin(node.jobs(), ","),
               node.reason()});
  }
  return table.Rendered(style.width, style.colours);
}

int ListNodes(Program& program) {
  v1::ListNodesResponse nodes;
  const grpc::Status status = FetchNodes(program, &nodes);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(nodes);
  } else if (nodes.nodes().empty()) {
    program.Note("no nodes yet; a worker daemon registers its node by itself");
  } else {
    program.out() << NodeTable(nodes, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeList(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("list", "List nodes by name");
  verb->callback([&program] { program.action = [&program] { return ListNodes(program); }; });
}

}  // namespace paceline
