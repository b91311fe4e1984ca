// paceline drill FILE: a job's own script, disturbed in each way that it should survive.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/dev/dev_dir.h"
#include "cli/drill/card_json.h"
#include "cli/drill/core/card_html.h"
#include "cli/drill/core/judge.h"
#include "cli/drill/core/rehearsal.h"
#include "cli/drill/core/report_card.h"
#include "cli/drill/drill_spec.h"
#include "cli/job_file/job_file.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/checkpoint_location.h"
#include "cli/verbs/cluster/own_cluster.h"
#include "cli/verbs/job/drill_run.h"
#include "cli/verbs/job/job_problems.h"
#include "cli/verbs/job/outside_fault.h"
#include "cli/verbs/job/ship.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"

namespace paceline {
namespace {

constexpr int kWorkers = 3;  // Of a cluster of the drill's own: any two have room for all ranks.

struct DrillFlags {
  std::string file;
  int ranks = 0;  // 0: those of the job file.
  int64_t steps = 24;
  std::vector<std::string> only;
  std::string full_disk;
  std::string html;  // A file, or empty.
  bool on_cluster = false;
  bool ship = false;
};

// Folders of a drill, with all that is in them, for as long as this lives.
class DrillFolders {
 public:
  explicit DrillFolders(Program& program) : program_(program) {}
  ~DrillFolders() {
    for (const std::string& folder : folders_) {
      std::error_code error;
      std::filesystem::remove_all(folder, error);
      if (error) {
        program_.Note(absl::StrCat("warning: ", folder, " is left: ", error.message(),
                                   "; remove it when its jobs have ended"));
      }
    }
  }
  DrillFolders(const DrillFolders&) = delete;
  DrillFolders& operator=(const DrillFolders&) = delete;

  // A new folder in `parent`, which is made if it is missing.
  absl::StatusOr<std::string> Make(const std::string& parent) {
    const std::string folder = absl::StrCat(parent, "/drill-", NewUuid().substr(0, 8));
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot make ", folder, ": ", error.message()));
    }
    folders_.push_back(folder);
    return folder;
  }

 private:
  Program& program_;
  std::vector<std::string> folders_;
};

class Drill {
 public:
  Drill(Program& program, const DrillFlags& flags, JobFile file)
      : program_(program), flags_(flags), file_(std::move(file)) {}

  // Returns the exit code.
  int Run() {
    const absl::Time begun = absl::Now();
    const absl::Status prepared = Prepare();
    if (program_.interrupt().raised()) return kCliInterrupted;
    if (!prepared.ok()) return program_.Fail(prepared);
    const int exit = RunAll();
    if (exit != kCliOk) return exit;
    card_.took = absl::Now() - begun;
    card_.timeouts = JudgeTimeouts(judged_.timeouts, seen_, judged_.replaces);
    if (program_.json()) {
      program_.PrintJsonText(CardJson(card_));
    } else {
      program_.out() << CardText(card_) << std::flush;
    }
    if (!flags_.html.empty()) {
      const absl::Status written = WriteFileAtomically(flags_.html, {CardHtml(card_)});
      if (!written.ok()) return program_.Fail(written);
    }
    return FailuresOf(card_) == 0 ? kCliOk : kCliFailed;
  }

 private:
  bool own() const { return !flags_.on_cluster && !has_server_; }

  // Checks what is asked for, and starts the cluster.
  absl::Status Prepare() {
    has_server_ = !program_.flags.server.empty() || !program_.flags.context.empty();
    EndWithTheTerminal();
    PACELINE_RETURN_IF_ERROR(CheckForDrill(file_.spec, own()));
    if (!flags_.full_disk.empty()) PACELINE_RETURN_IF_ERROR(CheckSmallDisk(flags_.full_disk));
    // Now, and not after minutes: that the file can be written.
    if (!flags_.html.empty()) PACELINE_RETURN_IF_ERROR(AtomicFile::Create(flags_.html).status());
    if (!own() && file_.spec.checkpoint().directory().empty()) {
      return absl::FailedPreconditionError(
          "the job has no checkpoint.directory, where the ledger of samples would be; give it one "
          "that all nodes and this machine see");
    }
    std::error_code none;
    const std::string parent = own() ? std::filesystem::temp_directory_path(none).string()
                                     : file_.spec.checkpoint().directory();
    PACELINE_ASSIGN_OR_RETURN(folder_, folders_.Make(parent));
    if (!flags_.full_disk.empty()) {
      PACELINE_ASSIGN_OR_RETURN(small_folder_, folders_.Make(AbsolutePath(flags_.full_disk)));
    }
    if (flags_.ship) {
      PACELINE_ASSIGN_OR_RETURN(code_, Ship(program_, &file_.spec));
    }
    const v1::JobSpec spec = SpecFor(folder_);
    judged_ = JudgedJobOf(spec);
    card_.job = SanitizeLine(file_.spec.name());
    card_.ranks = spec.ranks();
    card_.steps = spec.steps();
    return own() ? StartCluster(spec) : UseCluster();
  }

  absl::Status StartCluster(const v1::JobSpec& spec) {
    card_.where = "a cluster of its own";
    DevSettings settings;
    settings.workers = kWorkers;
    settings.slots = (spec.ranks() + spec.recovery().spares() + 1) / (kWorkers - 1);
    return cluster_.Start(program_, "paceline-drill", settings);
  }

  absl::Status UseCluster() {
    const absl::StatusOr<ServerChoice> choice = program_.ChooseServer();
    if (!choice.ok()) return choice.status();
    if (choice->is_default) {
      return absl::FailedPreconditionError(
          "--on-cluster: no cluster is configured; give --server or --context, or leave it out for "
          "a cluster of the drill's own");
    }
    card_.where = program_.ServerText();
    return absl::OkStatus();
  }

  v1::JobSpec SpecFor(const std::string& folder) const {
    DrillChanges changes;
    changes.ranks = flags_.ranks;
    changes.steps = flags_.steps;
    changes.directory = folder;
    changes.own_cluster = own();
    return DrillSpec(file_.spec, changes);
  }

  // One run after the other. Returns an exit code if they cannot go on.
  int RunAll() {
    RunRecord reference;
    program_.Note("drill: the undisturbed run");
    DrillRunOptions options;
    options.limit = absl::Seconds(file_.spec.startup_timeout_s()) + absl::Minutes(30);
    int exit = RunJob(SpecFor(folder_), options, &reference);
    if (exit != kCliOk) return exit;
    card_.findings.push_back(JudgeReference(reference, judged_));
    seen_.until_first = TimesOf(reference).until_first;
    seen_.step = TimesOf(reference).longest;
    const bool sound = reference.end == RunEnd::kSucceeded;
    for (const Rehearsal& rehearsal : PlanRehearsals(SettingOf())) {
      DrillFinding left_out;
      left_out.check = FaultName(rehearsal.fault);
      left_out.verdict = DrillVerdict::kNotRehearsed;
      left_out.found = sound ? rehearsal.left_out : "the undisturbed run has failed";
      if (!left_out.found.empty()) {
        card_.findings.push_back(left_out);
        continue;
      }
      exit = Rehearse(rehearsal.fault, reference);
      if (exit != kCliOk) return exit;
    }
    return kCliOk;
  }

  DrillSetting SettingOf() const {
    DrillSetting setting;
    setting.ranks = card_.ranks;
    setting.own_cluster = own();
    setting.replaces = judged_.replaces;
    setting.has_small_disk = !small_folder_.empty();
    for (const std::string& name : flags_.only) setting.wanted.push_back(*FaultOfName(name));
    return setting;
  }

  int Rehearse(DrillFault fault, const RunRecord& reference) {
    program_.Note(absl::StrCat("drill: ", FaultName(fault)));
    DrillRunOptions options;
    options.fault = fault;
    options.pace = PaceOf(fault, card_.steps, TimesOf(reference));
    options.limit = LimitOf(fault, card_.steps, reference, judged_.timeouts);
    options.until_file = absl::StrCat(folder_, "/", FaultName(fault), ".over");
    options.small_disk = flags_.full_disk;
    options.cluster = own() ? &cluster_ : nullptr;
    v1::JobSpec spec = SpecFor(fault == DrillFault::kFullDisk ? small_folder_ : folder_);
    AddFault(fault, options.pace, options.until_file, &spec);
    RunRecord run;
    const int exit = RunJob(spec, options, &run);
    if (exit != kCliOk) return exit;
    card_.findings.push_back(JudgeRun(fault, reference, run, judged_));
    const ChangeTimes changes = ChangesOf(run);
    seen_.first_step = std::max(seen_.first_step, changes.first_step);
    seen_.rejoin = std::max(seen_.rejoin, changes.rejoin);
    if (fault != DrillFault::kNone) return kCliOk;
    seen_.step = std::max(seen_.step, TimesOf(run).longest);
    if (FirstDifference(reference, run).has_value()) {
      judged_.losses_differ_anyway = "two undisturbed runs differ";
    }
    return kCliOk;
  }

  int RunJob(const v1::JobSpec& spec, DrillRunOptions options, RunRecord* record) {
    options.code = code_;
    const grpc::Status status = RunDrillJob(program_, spec, options, record);
    if (program_.interrupt().raised()) return kCliInterrupted;
    return status.ok() ? kCliOk : TellRefusal(program_, flags_.file, file_, status);
  }

  Program& program_;
  const DrillFlags& flags_;
  JobFile file_;
  bool has_server_ = false;  // On the command line.
  DrillFolders folders_{program_};
  std::string folder_;        // For checkpoints and ledgers.
  std::string small_folder_;  // The same, on the small disk; empty: there is none.
  std::string code_;          // Of Ship.
  OwnCluster cluster_;        // Ends before the folders go.
  JudgedJob judged_;
  MeasuredTimes seen_;
  ReportCard card_;
};

int RunDrill(Program& program, const DrillFlags& flags) {
  absl::StatusOr<JobFile> file = ReadJobFile(flags.file);
  if (!file.ok()) return program.Fail(file.status());
  if (!file->problems.empty()) return TellProblems(program, flags.file, *file);
  // Until the cluster is down: an interrupt that nobody hears ends the process at once, and would
  // leave the cluster and the job behind.
  const Interrupt::Listener heard(program.interrupt(), [] {});
  return Drill(program, flags, *std::move(file)).Run();
}

}  // namespace

void AddDrill(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DrillFlags>();
  CLI::App* verb = parent.add_subcommand(
      "drill", "Rehearse a session's job: lose ranks, nodes, disk and controller, and judge it");
  verb->add_option("FILE", flags->file, "Job file of a session (docs/drill.md)")
      ->check(PlainPath())
      ->required();
  verb->add_option("--steps", flags->steps, "Steps of each run")
      ->check(WholeNumber(kLeastDrillSteps, 1000000))
      ->capture_default_str();
  verb->add_option("--ranks", flags->ranks, "Number of ranks. Default: the job file's")
      ->check(WholeNumber(1, 4096));
  verb->add_option("--only", flags->only,
                   "Faults to rehearse: kill, stop, slow, drain, full-disk, controller. Default: "
                   "all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"kill", "stop", "slow", "drain", "full-disk", "controller"}));
  verb->add_option("--full-disk", flags->full_disk,
                   "Folder on a small file system, which is filled for a while")
      ->check(PlainPath());
  verb->add_option("--html", flags->html, "File that gets the report card as a page")
      ->check(PlainPath());
  verb->add_flag("--on-cluster", flags->on_cluster,
                 "On the cluster of other commands, as with --server and --context. Default: a "
                 "cluster of its own on this machine");
  verb->add_flag("--ship", flags->ship, kShipHelp);
  RunWith(*verb, program, flags, RunDrill);
}

}  // namespace paceline
