// What a trainer of the node tells the controller, its end too, and what it is told itself.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/log.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/daemon/trainers/command_words.h"
#include "worker/daemon/trainers/node_trainer.h"
#include "worker/daemon/trainers/trainer_sockets.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/small_file.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

constexpr int kTailLines = 20;
constexpr size_t kTailBytes = 8 * 1024;
constexpr size_t kMaxLastWords = 16 << 20;
constexpr size_t kMaxErrorFile = 1 << 20;
// The part of a command's output that is searched for its error.
constexpr int kWordsLines = 60;
constexpr size_t kWordsBytes = 32 * 1024;

static_assert(static_cast<int>(FailureKind::kSignal) == v1::FAILURE_SIGNAL);
static_assert(static_cast<int>(FailureKind::kExitCode) == v1::FAILURE_EXIT_CODE);
static_assert(static_cast<int>(FailureKind::kError) == v1::FAILURE_ERROR);
static_assert(static_cast<int>(FailureKind::kOutOfMemory) == v1::FAILURE_OUT_OF_MEMORY);
static_assert(static_cast<int>(FailureKind::kCollective) == v1::FAILURE_COLLECTIVE);
static_assert(static_cast<int>(FailureKind::kInput) == v1::FAILURE_INPUT);
static_assert(static_cast<int>(FailureKind::kStart) == v1::FAILURE_START);
static_assert(static_cast<int>(FailureKind::kOrphaned) == v1::FAILURE_ORPHANED);
static_assert(static_cast<int>(FailureKind::kLost) == v1::FAILURE_LOST);
static_assert(static_cast<int>(FailureKind::kRestore) == v1::FAILURE_RESTORE);

// Removes faults that are meant for other nodes.
void KeepChaosOf(const std::string& node, v1::JobSpec& spec) {
  auto* chaos = spec.mutable_chaos();
  chaos->erase(std::remove_if(chaos->begin(), chaos->end(),
                              [&](const v1::Fault& fault) {
                                return !fault.node().empty() && fault.node() != node;
                              }),
               chaos->end());
}

std::optional<ProcessEnd> ProcessEndOf(const std::optional<ExitRecord>& record) {
  if (!record.has_value()) return std::nullopt;
  return ProcessEnd{record->exit_code, record->signal, record->out_of_memory, record->start_error,
                    record->is_input_error};
}

}  // namespace

v1::TrainerReport NodeTrainer::Report() const {
  if (ended()) return *result_;
  v1::TrainerReport report;
  *report.mutable_id() = IdToProto(id_);
  report.set_state(status_.state() == v1::TRAINER_STATE_UNSPECIFIED ? v1::TRAINER_STARTING
                                                                    : status_.state());
  report.set_pid(pid_ != 0 ? pid_ : status_.pid());
  if (waits_for_code_) {
    report.set_state(v1::TRAINER_STARTING);
  } else if (status_.store_port() > 0) {
    report.set_store_address(StoreAddress());
  }
  if (ring_.has_value()) *report.mutable_progress() = ProgressAt(MonotonicNanos());
  if (IsSilentCommand()) command_.TellQuiet(plan_.spec(), *report.mutable_progress());
  if (status_.has_evaluation()) *report.mutable_evaluation() = status_.evaluation();
  if (status_.has_plan()) *report.mutable_plan() = status_.plan();
  if (status_.has_figures()) *report.mutable_figures() = status_.figures();
  if (status_.has_profile()) *report.mutable_profile() = status_.profile();
  *report.mutable_saves() = status_.saves();
  if (status_.has_checkpoints()) *report.mutable_checkpoints() = status_.checkpoints();
  report.set_asked_to_end(status_.asked_to_end());
  if (status_.has_membership()) *report.mutable_membership() = status_.membership();
  report.set_no_slipstream(status_.no_slipstream());
  *report.mutable_artifacts() = status_.artifacts();
  report.set_suspended(suspended_);
  if (stacks_ == Stacks::kSaved && ::access(StacksPath().c_str(), F_OK) == 0) {
    report.set_stacks_file(StacksPath());
  }
  if (collectives_.reported().has_value()) *report.mutable_collectives() = *collectives_.reported();
  return report;
}

v1::Progress NodeTrainer::ProgressAt(uint64_t now_ns) const {
  v1::Progress progress = ring_->Progress(now_ns);
  // A watcher cannot know a script's loss; 0 would be wrong.
  if (!HasEngine()) progress.clear_loss();
  return progress;
}

v1::TrainerCommand NodeTrainer::Command() const {
  v1::TrainerCommand command;
  v1::TrainerConfig& config = *command.mutable_config();
  *config.mutable_id() = plan_.id();
  *config.mutable_spec() = plan_.spec();
  KeepChaosOf(setup_.node, *config.mutable_spec());
  config.set_world_size(plan_.world_size());
  config.set_slot(plan_.slot());
  config.set_threads(plan_.spec().threads_per_rank() > 0 ? plan_.spec().threads_per_rank()
                                                         : setup_.default_threads);
  config.set_interface(setup_.interface);
  config.set_restore_from(plan_.restore_from());
  config.set_local_rank(plan_.local().index());
  config.set_local_world_size(plan_.local().slots_size());
  config.mutable_allowed_roots()->Assign(setup_.roots.begin(), setup_.roots.end());
  v1::ObjectStores& stores = *config.mutable_object_stores();
  stores.mutable_allowed()->Assign(setup_.object_stores.begin(), setup_.object_stores.end());
  stores.set_cache_directory(setup_.object_cache);
  stores.set_cache_bytes(setup_.object_cache_bytes);
  command.set_store_address(plan_.store_address());
  if (plan_.has_plan()) *command.mutable_plan() = plan_.plan();
  if (plan_.has_profile()) *command.mutable_profile() = plan_.profile();
  if (plan_.has_checkpoints()) *command.mutable_checkpoints() = plan_.checkpoints();
  command.set_stopping(plan_.has_stop());
  if (plan_.has_membership()) *command.mutable_membership() = plan_.membership();
  return command;
}

void NodeTrainer::Judge(bool stop_requested) {
  if (process_.has_value()) process_->Reap();
  Poll(BootNow());
  const absl::StatusOr<std::optional<std::string>> fenced =
      ReadSmallFile(File(trainer_dir::kFenced));
  const absl::StatusOr<std::optional<ExitRecord>> record = ReadExitRecord(dir_);
  const std::optional<ExitRecord> known = record.ok() ? *record : std::nullopt;
  const std::optional<ProcessEnd> process_end = ProcessEndOf(known);
  // Somebody else killed it, before or after it was asked to end.
  if (process_end.has_value() && process_end->signal == SIGKILL && !killed_) stop_requested = false;
  const TrainerEnd end = JudgeEnd(process_end, WordsAtEnd(process_end), stop_requested,
                                  fenced.ok() ? fenced->value_or("") : "");
  // A command's error after a stop request is no failure, but may show why others failed.
  if (IsWatchedCommand() &&
      (end.failure != FailureKind::kNone || plan_.collectives_wanted() != 0)) {
    collectives_.TakeLeft(Member().rank.value());
  }
  v1::TrainerReport result = Report();
  if (ring_.has_value() && known.has_value()) {
    *result.mutable_progress() = ProgressAt(known->end_ns);
  }
  result.set_state(v1::TRAINER_EXITED);
  v1::TrainerExit& exit = *result.mutable_exit();
  exit.set_failure(static_cast<v1::FailureKind>(end.failure));
  exit.set_exit_code(end.exit_code);
  exit.set_signal(end.signal);
  exit.set_message(ToUtf8(end.message));
  exit.set_step(result.progress().step());
  exit.set_phase(result.progress().phase());
  exit.set_phase_s(result.progress().phase_s());
  if (end.failure != FailureKind::kNone) {
    exit.set_log_tail(LogFiles(setup_.paths.LogDir(id_)).Tail(kTailLines, kTailBytes));
  }
  process_.reset();
  command_.FreePort();
  result_ = std::move(result);
}

LastWords NodeTrainer::TakeLastWords() {
  v1::TrainerStatus last;
  const std::optional<std::string> text = OwnFile(trainer_dir::kStatus, kMaxLastWords);
  if (text.has_value() && last.ParseFromString(*text)) status_ = MergeLastWords(status_, last);
  return {status_.state() == v1::TRAINER_FINISHED, static_cast<FailureKind>(status_.error().kind()),
          status_.error().message()};
}

LastWords NodeTrainer::WordsAtEnd(const std::optional<ProcessEnd>& end) {
  if (!HasEngine()) return WordsOfCommand(end);
  LastWords words = TakeLastWords();
  // A session may fail where its engine cannot tell, such as in an import.
  if (IsCommand() && words.kind == FailureKind::kNone) {
    const LastWords program = WordsOfCommand(end);
    words.kind = program.kind;
    words.message = program.message;
  }
  return words;
}

LastWords NodeTrainer::WordsOfCommand(const std::optional<ProcessEnd>& end) const {
  return CommandWords(end, OwnFile(trainer_dir::kErrorFile, kMaxErrorFile).value_or(""),
                      LogFiles(setup_.paths.LogDir(id_)).Tail(kWordsLines, kWordsBytes));
}

}  // namespace paceline
