// paceline node list
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"

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
