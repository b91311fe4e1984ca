// paceline dev up
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/dev/dev_cluster.h"
#include "cli/dev/process.h"
#include "cli/rpc/resumption.h"
#include "cli/verbs/dev_common.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct DevUpFlags {
  std::string dir;
  std::string bin_dir;
  int workers = 0;  // 0: as the last time.
  int slots = 0;
};

// One that is cordoned or drained is up, too.
bool Answers(const v1::Node& node) {
  return node.state() != v1::NODE_STATE_UNSPECIFIED && node.state() != v1::NODE_UNREACHABLE &&
         node.state() != v1::NODE_LOST;
}

// Waits until every worker reports to the controller. Returns those that are missing.
std::set<std::string> AwaitReady(Program& program, const std::string& controller, int workers,
                                 absl::Time deadline) {
  std::set<std::string> missing;
  for (int i = 0; i < workers; ++i) missing.insert(absl::StrCat("w", i));
  Client::Options options;
  options.server = controller;
  options.timeout = deadline - absl::Now();
  options.user = program.local_user();
  Client client(options, program.interrupt());
  Resumption resumption(client, deadline, [](const grpc::Status&) {});
  grpc::Status status;
  do {
    status = client.WatchNodes(
        v1::WatchNodesRequest(),
        [&](const v1::NodeEvent& event) {
          resumption.Arrived();
          if (Answers(event.node())) missing.erase(event.node().name());
          return !missing.empty();
        },
        deadline);
  } while (resumption.Again(&status));
  return missing;
}

int Up(Program& program, const DevUpFlags& flags) {
  const DevDir dir = ChosenDevDir(program, flags.dir);
  absl::StatusOr<DevCluster> cluster = DevCluster::Open(dir);
  if (!cluster.ok()) return program.Fail(cluster.status());
  DevSettings settings = ReadSettings(dir);
  if (flags.workers > 0) settings.workers = flags.workers;
  if (flags.slots > 0) settings.slots = flags.slots;
  const absl::Duration timeout = absl::Seconds(program.flags.timeout_s);
  const absl::StatusOr<std::vector<std::string>> started =
      cluster->Start(settings, flags.bin_dir.empty() ? ProgramDir() : flags.bin_dir, timeout);
  if (!started.ok()) {
    const int exit = program.Fail(started.status());
    if (exit == kCliFailed) program.Note("`paceline dev down` ends what was started");
    return exit;
  }
  const std::string controller = ReadAddresses(ControllerPlace(dir)).grpc;
  const std::set<std::string> missing =
      AwaitReady(program, controller, settings.workers, absl::Now() + timeout);
  if (program.interrupt().raised()) {
    program.Note("the cluster runs on; `paceline dev down` ends it");
    return kCliInterrupted;
  }
  if (!missing.empty()) {
    const std::string log = WorkerPlace(dir, *missing.begin()).log_file;
    return program.Fail(kCliTimeout,
                        absl::StrCat("not ready in time: ", absl::StrJoin(missing, ", "), ". ", log,
                                     " ends with:\n", LastLines(log, 10)));
  }
  program.Note(started->empty() ? "the cluster runs already"
                                : absl::StrCat("started ", absl::StrJoin(*started, ", ")));
  ShowCluster(program, dir);
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  if (choice.ok() && !choice->context.empty()) {
    program.Note(absl::StrCat("commands go to context ", choice->context, " (", choice->address,
                              "), not here: `paceline context use --none` or --server ", controller,
                              " changes that"));
  }
  const bool elsewhere = dir.root != ChosenDevDir(program, "").root;
  if (elsewhere) program.Note(absl::StrCat("next: export PACELINE_DEV_DIR=", dir.root));
  program.Note(absl::StrCat(elsewhere ? "      " : "next: ", "paceline submit FILE --follow"));
  program.Note("      paceline dev down");
  program.Note(
      absl::StrCat("in a browser: http://", ReadAddresses(ControllerPlace(dir)).http, "/"));
  return kCliOk;
}

}  // namespace

void AddDevUp(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DevUpFlags>();
  CLI::App* verb =
      parent.add_subcommand("up", "Start a cluster on this machine, or what is missing of it");
  verb->add_option("--workers", flags->workers,
                   "Number of worker daemons. Default: as before, else 2")
      ->check(WholeNumber(1, 64));
  verb->add_option("--slots", flags->slots,
                   "CPU ranks that each worker takes. Default: as before, else 2")
      ->check(WholeNumber(1, 1024));
  AddDirFlag(*verb, flags->dir);
  verb->add_option("--bin-dir", flags->bin_dir,
                   "Folder of the daemons' programs. Default: that of this program")
      ->check(CLI::ExistingDirectory);
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Up(program, *flags); }; });
}

}  // namespace paceline
