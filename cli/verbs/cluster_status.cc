// paceline cluster status
#include "absl/time/clock.h"
#include "cli/verbs/cluster_facts.h"
#include "cli/verbs/verbs.h"
#include "proto/identity.pb.h"

namespace paceline {
namespace {

int ShowCluster(Program& program) {
  ClusterFacts facts;
  const grpc::Status status = FetchCluster(program, &facts);
  if (!status.ok()) return program.Fail(status);
  v1::WhoAmIResponse own;
  if (program.client().WhoAmI({}, &own).ok() && own.plaintext()) {
    program.Note("the controller speaks plain text: everybody on its machine is an administrator");
  }
  if (program.json()) {
    program.PrintJsonText(ClusterJson(facts, absl::Now()));
  } else {
    program.out() << ClusterPage(facts, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddClusterStatus(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand(
      "status", "Show nodes, slots, jobs and the automation at a glance, and what needs attention");
  verb->callback([&program] { program.action = [&program] { return ShowCluster(program); }; });
}

}  // namespace paceline
