// paceline dev up, down and status: a cluster on this machine.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/dev/dev_cluster.h"
#include "cli/dev/dev_dir.h"
#include "cli/dev/dev_trainers.h"
#include "cli/dev/process.h"
#include "cli/rpc/client.h"
#include "cli/rpc/resumption.h"
#include "cli/text/table.h"
#include "cli/verbs/cluster/dev_start.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_text.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct Row {
  DaemonPlace place;
  pid_t pid = 0;
  DaemonAddresses addresses;
  int trainers = 0;
};

Row RowOf(const DaemonPlace& place, bool worker) {
  Row row;
  row.place = place;
  row.pid = place.Pid();
  if (row.pid != 0) row.addresses = ReadAddresses(place);
  if (worker) row.trainers = static_cast<int>(LiveTrainers(place.state_dir).size());
  return row;
}

nlohmann::json JsonOf(const Row& row) {
  return {
      {"name", row.place.name},           {"running", row.pid != 0},    {"pid", row.pid},
      {"grpc", row.addresses.grpc},       {"http", row.addresses.http}, {"trainers", row.trainers},
      {"state_dir", row.place.state_dir}, {"log", row.place.log_file}};
}

std::string TableOf(const std::vector<Row>& rows, const PageStyle& style) {
  Table table(
      {{"NAME"}, {"STATE"}, {"PID", true}, {"GRPC"}, {"HTTP"}, {"TRAINERS", true}, {"LOG"}});
  for (const Row& row : rows) {
    const bool runs = row.pid != 0;
    table.Add({row.place.name,
               {runs ? "running" : "stopped", runs ? Colour::kGreen : Colour::kRed},
               runs ? absl::StrCat(row.pid) : "",
               row.addresses.grpc,
               row.addresses.http,
               absl::StrCat(row.trainers),
               row.place.log_file});
  }
  return table.Rendered(style.width, style.colours);
}

// `dir` outlives the parser.
void AddDirFlag(CLI::App& verb, std::string& dir) {
  verb.add_option("--dir", dir,
                  "Folder of the cluster. Default: $PACELINE_DEV_DIR, else ~/.paceline/dev")
      ->check(PlainPath());
}

DevDir ChosenDevDir(const Program& program, const std::string& dir_flag) {
  if (!dir_flag.empty()) return DevDirAt(dir_flag);
  return DefaultDevDir([&program](const char* name) { return program.Variable(name); });
}

// Shows the daemons of the cluster (state, process, addresses, live trainers, log) as a table, or
// as JSON. Returns true if the controller and every worker run.
bool ShowCluster(Program& program, const DevDir& dir) {
  std::vector<Row> rows = {RowOf(ControllerPlace(dir), false)};
  for (const std::string& name : dir.Workers()) rows.push_back(RowOf(WorkerPlace(dir, name), true));
  if (program.json()) {
    nlohmann::json workers = nlohmann::json::array();
    for (size_t i = 1; i < rows.size(); ++i) workers.push_back(JsonOf(rows[i]));
    const nlohmann::json cluster = {
        {"directory", dir.root}, {"controller", JsonOf(rows[0])}, {"workers", workers}};
    program.PrintJsonText(cluster.dump(2));
  } else {
    program.out() << TableOf(rows, program.style()) << std::flush;
  }
  return rows.size() > 1 &&
         std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.pid != 0; });
}

struct DevUpFlags {
  std::string dir;
  std::string bin_dir;
  int workers = 0;  // 0: as many as last time.
  int slots = 0;
};

// Cordoned and drained nodes are up, too.
bool Answers(const v1::Node& node) {
  return node.state() != v1::NODE_STATE_UNSPECIFIED && node.state() != v1::NODE_UNREACHABLE &&
         node.state() != v1::NODE_LOST;
}

// Waits until every worker reports to the controller. Returns the missing ones.
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
    status = client.Stream(methods::kNodeWatch, v1::WatchNodesRequest(),
                           [&](const v1::NodeEvent& event) {
                             resumption.Arrived();
                             if (Answers(event.node())) missing.erase(event.node().name());
                             return !missing.empty();
                           },
                           {/*endless=*/true, deadline});
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
  const absl::StatusOr<std::vector<std::string>> started = StartDevCluster(
      program, *cluster, dir, settings, flags.bin_dir.empty() ? ProgramDir() : flags.bin_dir);
  if (program.interrupt().raised()) {
    program.Note("the cluster runs on; `paceline dev down` ends it");
    return kCliInterrupted;
  }
  if (!started.ok()) {
    const int exit = program.Fail(started.status());
    if (exit == kCliFailed) program.Note("`paceline dev down` ends what was started");
    return exit;
  }
  const std::string controller = ReadAddresses(ControllerPlace(dir)).grpc;
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
      ->check(PlainPath())
      ->check(CLI::ExistingDirectory);
  RunWith(*verb, program, flags, Up);
}

constexpr absl::Duration kCancelTimeout = absl::Seconds(2);

struct DevDownFlags {
  std::string dir;
  bool purge = false;
  double grace_s = 5;
};

// Cancels jobs, which would otherwise count as failed when their trainers are ended. If the
// controller does not answer, the cluster is taken down anyway.
void CancelJobs(Program& program, const DevDir& dir) {
  Client::Options options;
  options.server = RunningDevController(dir);
  options.timeout = kCancelTimeout;
  options.user = program.local_user();
  if (options.server.empty()) return;
  Client client(options, program.interrupt());
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  for (const v1::JobState state : {v1::QUEUED, v1::STARTING, v1::RUNNING}) {
    request.add_states(state);
  }
  v1::ListJobsResponse jobs;
  if (!client.Call(methods::kJobList, request, &jobs).ok()) return;
  for (const v1::Job& job : jobs.jobs()) {
    v1::CancelJobRequest cancel;
    cancel.set_job(job.id());
    cancel.set_request_id(NewUuid());
    cancel.set_reason("the dev cluster was taken down");
    v1::Job cancelled;
    if (client.Call(methods::kJobCancel, cancel, &cancelled).ok()) {
      program.Note(absl::StrCat("cancelled ", JobNameText(job)));
    }
  }
}

int Down(Program& program, const DevDownFlags& flags) {
  const DevDir dir = ChosenDevDir(program, flags.dir);
  std::error_code none;
  if (!std::filesystem::exists(dir.root, none)) {
    program.Note(absl::StrCat("there is no cluster in ", dir.root));
    return kCliOk;
  }
  absl::StatusOr<DevCluster> cluster = DevCluster::Open(dir);
  if (!cluster.ok()) return program.Fail(cluster.status());
  CancelJobs(program, dir);
  const absl::StatusOr<int> ended = cluster->Stop(absl::Seconds(flags.grace_s));
  if (!ended.ok()) return program.Fail(ended.status());
  if (flags.purge) {
    const absl::Status purged = cluster->Purge();
    if (!purged.ok()) return program.Fail(purged);
  }
  program.Note(
      absl::StrCat(*ended == 0 ? "nothing ran" : absl::StrCat("ended ", *ended, " processes"),
                   flags.purge ? "; removed " : "; state and logs stay in ", dir.root));
  return kCliOk;
}

void AddDevDown(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DevDownFlags>();
  CLI::App* verb = parent.add_subcommand("down", "End the cluster, with every trainer of it");
  verb->add_flag("--purge", flags->purge, "Remove its state and logs too");
  verb->add_option("--grace", flags->grace_s,
                   "Seconds between asking a process to stop and killing it")
      ->transform(Seconds(0))
      ->capture_default_str();
  AddDirFlag(*verb, flags->dir);
  RunWith(*verb, program, flags, Down);
}

void AddDevStatus(CLI::App& parent, Program& program) {
  const auto dir = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "status", "Show the cluster's daemons; exit code 4 unless all of them run");
  AddDirFlag(*verb, *dir);
  verb->callback([dir, &program] {
    program.action = [dir, &program] {
      return ShowCluster(program, ChosenDevDir(program, *dir)) ? kCliOk : kCliRefused;
    };
  });
}

}  // namespace

absl::StatusOr<std::vector<std::string>> StartDevCluster(Program& program, DevCluster& cluster,
                                                         const DevDir& dir,
                                                         const DevSettings& settings,
                                                         const std::string& bin_dir) {
  const absl::Duration timeout = absl::Seconds(program.flags.timeout_s);
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::string> started,
                            cluster.Start(settings, bin_dir, timeout));
  const std::string controller = ReadAddresses(ControllerPlace(dir)).grpc;
  const std::set<std::string> missing =
      AwaitReady(program, controller, settings.workers, absl::Now() + timeout);
  if (missing.empty()) return started;
  const std::string log = WorkerPlace(dir, *missing.begin()).log_file;
  return absl::DeadlineExceededError(
      absl::StrCat("not ready in time: ", absl::StrJoin(missing, ", "), ". ", log, " ends with:\n",
                   LastLines(log, 10)));
}

void AddDevVerbs(CLI::App& parent, Program& program) {
  AddDevUp(parent, program);
  AddDevDown(parent, program);
  AddDevStatus(parent, program);
}

}  // namespace paceline
