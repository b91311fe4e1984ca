// paceline run SCRIPT: a program of one's own as the ranks of a job, followed to its end.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "cli/dev/dev_dir.h"
#include "cli/rpc/error_text.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/checkpoint_location.h"
#include "cli/verbs/cluster/own_cluster.h"
#include "cli/verbs/job/job_output.h"
#include "cli/verbs/job/ship.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_page.h"
#include "cli/view/job/job_text.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

// How soon the end of the job and Ctrl-C are noticed.
constexpr absl::Duration kLook = absl::Milliseconds(10);

struct RunFlags {
  std::vector<std::string> command;  // The script and its arguments.
  bool is_module = false;
  bool no_python = false;
  int ranks = 0;
  int nodes = 0;  // 0: any number.
  int per_node = 0;
  std::string device = "cpu";
  std::string venv;
  std::vector<std::string> environment;
  int max_restarts = 0;
  std::string name;
  std::string queue;
  int priority = 0;
  double stop_grace_s = 0;
  bool all_ranks = false;
  bool no_watch = false;
  bool ship = false;
  bool standalone = false;  // torchrun's; it is what is done anyway.
};

int RanksOf(const RunFlags& flags) {
  return flags.ranks > 0 ? flags.ranks : std::max(1, flags.nodes) * std::max(1, flags.per_node);
}

bool IsFile(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

// "train.py" as "train": what a job may be called.
std::string NameOf(const std::string& script) {
  std::string name;
  for (const char c : std::filesystem::path(script).stem().string()) {
    name += absl::ascii_isalnum(c) ? absl::ascii_tolower(c) : '-';
  }
  if (name.empty() || !absl::ascii_islower(name[0])) name = absl::StrCat("run-", name);
  return name.substr(0, 63);
}

// The command of each rank. NotFound when there is no such script here.
absl::StatusOr<std::vector<std::string>> CommandOf(const RunFlags& flags) {
  std::vector<std::string> command = flags.command;
  const std::string& script = command.front();
  if (flags.is_module) {
    command.insert(command.begin(), {"python3", "-m"});
    return command;
  }
  const bool is_python = absl::EndsWith(script, ".py") && !flags.no_python;
  if (IsFile(script)) {
    if (is_python) {
      command.insert(command.begin(), "python3");
    } else if (::access(script.c_str(), X_OK) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(script,
                       " is no Python script (.py) and cannot be executed: chmod +x, or "
                       "name its interpreter: paceline run bash ",
                       script));
    } else if (!absl::StrContains(script, '/')) {
      command.front() = absl::StrCat("./", script);
    }
    return command;
  }
  // A program that is looked up in PATH has no slash.
  if (is_python || absl::StrContains(script, '/')) {
    return absl::NotFoundError(absl::StrCat("no such script: ", script));
  }
  return command;
}

absl::StatusOr<v1::JobSpec> SpecOf(const Program& program, const RunFlags& flags) {
  v1::JobSpec spec;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> command, CommandOf(flags));
  spec.mutable_command()->Add(command.begin(), command.end());
  spec.set_name(flags.name.empty() ? NameOf(flags.command.front()) : flags.name);
  spec.set_ranks(RanksOf(flags));
  if (flags.nodes > 0) {
    spec.mutable_placement()->set_ranks_per_node(std::max(1, flags.per_node));
  }
  spec.set_device(flags.device == "cuda" ? v1::CUDA : v1::CPU);
  spec.set_working_directory(std::filesystem::current_path().string());
  // Whose python3 the user would start.
  std::string venv = flags.venv;
  if (venv.empty()) venv = program.Variable("VIRTUAL_ENV");
  if (venv.empty()) venv = program.Variable("CONDA_PREFIX");
  if (!venv.empty()) spec.set_venv(AbsolutePath(venv));
  for (const std::string& entry : flags.environment) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const bool has_value = absl::StrContains(entry, '=');
    (*spec.mutable_environment())[parts.first] =
        has_value ? parts.second : program.Variable(parts.first.c_str());
  }
  spec.set_max_restarts(flags.max_restarts);
  spec.set_queue(flags.queue);
  spec.set_priority(flags.priority);
  spec.set_stop_grace_s(flags.stop_grace_s);
  if (flags.no_watch) spec.set_watch(false);
  return spec;
}

// Cancels the job: asked to stop, or, `now`, killed.
void Cancel(Program& program, const std::string& job_id, bool now) {
  v1::CancelJobRequest request;
  request.set_job(job_id);
  request.set_request_id(NewUuid());
  request.set_reason("interrupted");
  if (now) request.set_grace_s(0.001);
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobCancel, request, &job);
  if (!status.ok()) program.Fail(status);
}

// As a shell tells how the program has ended.
int ExitCodeOf(const v1::Job& job, bool interrupted) {
  if (interrupted) return kCliInterrupted;
  if (job.state() == v1::SUCCEEDED) return kCliOk;
  const v1::TrainerExit& exit = job.failure().exit();
  if (exit.signal() != 0) return 128 + exit.signal();
  return exit.exit_code() != 0 ? exit.exit_code() : kCliFailed;
}

// Prints what the ranks write until the job has ended. The first Ctrl-C stops the job, the second
// one kills it, the third leaves it alone.
int FollowOutput(Program& program, const std::string& job_id, const RunFlags& flags) {
  // Output goes on while the job stops.
  Interrupt left_alone;
  Client reader(program.ClientOptions(), left_alone);
  absl::Notification ended;
  v1::Job job;
  grpc::Status status;
  std::thread output([&] {
    status = PrintJobOutput(program, reader, job_id, flags.all_ranks ? kAllRanks : 0, &job);
    ended.Notify();
  });
  int interrupts = 0;
  while (!ended.HasBeenNotified()) {
    if (!program.interrupt().WaitFor(kLook)) continue;
    program.interrupt().Lower();
    if (++interrupts > 2) {
      left_alone.Raise();
      break;
    }
    program.Note(interrupts == 1 ? absl::StrCat("stopping ", job_id, "; Ctrl-C again kills it")
                                 : absl::StrCat("killing ", job_id));
    Cancel(program, job_id, /*now=*/interrupts > 1);
  }
  output.join();
  if (interrupts > 2) {
    program.Note(absl::StrCat(job_id, " may go on; `paceline job cancel ", job_id, "` ends it"));
    return kCliInterrupted;
  }
  if (!status.ok()) return program.Fail(status);
  if (job.has_failure()) program.err() << FailureText(job, program.style()) << std::flush;
  if (job.state() == v1::CANCELLED && interrupts == 0) {
    program.Note(absl::StrCat(job_id, " was cancelled: ", SanitizeLine(job.reason())));
  }
  return ExitCodeOf(job, interrupts > 0);
}

int RunScript(Program& program, const RunFlags& flags) {
  // From the first moment to the last: an interrupt that nobody hears ends the process at once, and
  // would leave the cluster and the job behind.
  const Interrupt::Listener heard(program.interrupt(), [] {});
  absl::StatusOr<v1::JobSpec> spec = SpecOf(program, flags);
  if (!spec.ok()) return program.Fail(spec.status());
  std::string code;
  if (flags.ship) {
    absl::StatusOr<std::string> shipped = Ship(program, &*spec);
    if (!shipped.ok()) return program.Fail(shipped.status());
    code = *std::move(shipped);
  }
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  if (!choice.ok()) return program.Fail(choice.status());
  OwnCluster own;
  if (choice->is_default) {
    EndWithTheTerminal();
    DevSettings settings;
    settings.workers = std::max(1, flags.nodes);
    settings.slots = RanksOf(flags) / settings.workers;
    const absl::Status started = own.Start(program, "paceline-run", settings);
    if (program.interrupt().raised()) return kCliInterrupted;
    if (!started.ok()) return program.Fail(started);
  }
  v1::SubmitJobRequest request;
  *request.mutable_spec() = *spec;
  request.set_request_id(NewUuid());
  v1::Job job;
  const grpc::Status status = SubmitShipped(program, request, code, &job);
  if (!status.ok()) {
    for (const FieldViolation& violation : FieldViolations(status)) {
      program.Note(absl::StrCat(violation.field, " ", violation.description));
    }
    return program.Fail(status);
  }
  if (!choice->is_default) {
    program.Note(absl::StrCat("submitted ", SanitizeLine(job.spec().name()), " (", job.id(),
                              ") to ", program.ServerText()));
  }
  return FollowOutput(program, job.id(), flags);
}

}  // namespace

void AddRun(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* verb = parent.add_subcommand(
      "run", "Run a program of yours as the ranks of a job, as torchrun does, and show its output");
  verb->add_option("SCRIPT", flags->command,
                   "Python script, or program, and its arguments: all that follows is theirs")
      ->required();
  verb->add_flag("-m,--module", flags->is_module, "SCRIPT is the name of a Python module");
  verb->add_flag("--no-python", flags->no_python,
                 "SCRIPT is no Python script, even if it ends in .py");
  auto* ranks = verb->add_option("--ranks", flags->ranks, "Number of ranks. Default: 1")
                    ->check(WholeNumber(1, 4096));
  verb->add_option("--nodes,--nnodes", flags->nodes,
                   "Number of nodes, each of which runs --per-node ranks. Default: as few as have "
                   "room for all ranks")
      ->check(WholeNumber(1, 4096))
      ->excludes(ranks);
  verb->add_option("--per-node,--nproc-per-node,--nproc_per_node", flags->per_node,
                   "Ranks on each node of --nodes; without --nodes, of the job. Default: 1")
      ->check(WholeNumber(1, 4096))
      ->excludes(ranks);
  verb->add_option("--device", flags->device, "cpu or cuda: each rank takes a slot or a GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--venv", flags->venv,
                   "Virtual environment whose python3 it is. Default: the active one");
  verb->add_option("-e,--env", flags->environment,
                   "KEY=VALUE, or KEY for that of this shell; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--max-restarts,--max_restarts", flags->max_restarts,
                   "How often it is started again after a rank failed")
      ->check(WholeNumber(0, 1000000));
  verb->add_option("--name", flags->name, "Name of the job. Default: the script's");
  verb->add_option("--queue", flags->queue, "Queue that the job waits in");
  verb->add_option("--priority", flags->priority, "Within its queue; the greater goes first");
  verb->add_option("--stop-grace", flags->stop_grace_s,
                   "Seconds from SIGTERM to SIGKILL when it is stopped. Default: 10")
      ->transform(Seconds(0));
  verb->add_flag("-a,--all-ranks", flags->all_ranks,
                 "Show the output of all ranks, each line with its rank. Default: rank 0's");
  verb->add_flag("--ship", flags->ship, kShipHelp);
  verb->add_flag("--no-watch", flags->no_watch, "Do not measure its steps");
  verb->add_flag("--standalone", flags->standalone, "As torchrun's; it changes nothing");
  RunWith(*verb, program, flags, RunScript);
}

}  // namespace paceline
