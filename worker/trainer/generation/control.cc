#include "worker/trainer/generation/control.h"

#include <sys/un.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "common/forked_child.h"
#include "common/log.h"
#include "proto/trainer.pb.h"
#include "worker/trainer/generation/control_state.h"
#include "worker/trainer/generation/control_thread.h"
#include "worker/trainer/generation/stop_signal.h"
#include "worker/trainer/report/figures_to_proto.h"
#include "worker/trainer/report/log_file.h"

namespace paceline {
namespace {

absl::StatusOr<v1::TrainerId> ParseId(const std::string& directory) {
  const std::vector<std::string> path = absl::StrSplit(directory, '/', absl::SkipEmpty());
  const std::vector<std::string> parts =
      absl::StrSplit(path.empty() ? std::string() : path.back(), '.');
  v1::TrainerId id;
  int64_t generation = 0;
  int32_t rank = 0;
  if (parts.size() != 3 || parts[0].empty() || !absl::SimpleAtoi(parts[1], &generation) ||
      !absl::SimpleAtoi(parts[2], &rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": the directory's name is not <job>.<generation>.<rank>"));
  }
  id.set_job_id(parts[0]);
  id.set_generation(generation);
  id.set_rank(rank);
  return id;
}

v1::FailureKind KindOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
      return v1::FAILURE_INPUT;
    case absl::StatusCode::kFailedPrecondition:
      return v1::FAILURE_RESTORE;
    case absl::StatusCode::kResourceExhausted:
      return v1::FAILURE_OUT_OF_MEMORY;
    case absl::StatusCode::kUnavailable:
      return v1::FAILURE_COLLECTIVE;
    default:
      return v1::FAILURE_ERROR;
  }
}

// Maximum number of saves in a status (proto/trainer.proto).
constexpr int kMaxSaves = 8;

bool AreOfOneSave(const v1::SaveStatus& a, const v1::SaveStatus& b) {
  return a.generation() == b.generation() && a.step() == b.step() &&
         (a.step() > 0 || a.order() == b.order());
}

// Index of the save to drop when there are too many: the oldest that was left out, since the daemon
// may still have to act on others; otherwise the oldest.
int LeastNeeded(const v1::TrainerStatus& status) {
  for (int i = 0; i + 1 < status.saves_size(); ++i) {
    if (status.saves(i).state() == v1::SAVE_SKIPPED) return i;
  }
  return 0;
}

void PutSave(v1::SaveStatus save, v1::TrainerStatus* status) {
  for (v1::SaveStatus& known : *status->mutable_saves()) {
    if (!AreOfOneSave(known, save)) continue;
    known = std::move(save);
    return;
  }
  *status->add_saves() = std::move(save);
  if (status->saves_size() > kMaxSaves) {
    status->mutable_saves()->DeleteSubrange(LeastNeeded(*status), 1);
  }
}

// Maximum number of artifacts in a status (proto/trainer.proto).
constexpr int kMaxArtifacts = 32;

void PutArtifact(v1::Artifact artifact, v1::TrainerStatus* status) {
  for (v1::Artifact& known : *status->mutable_artifacts()) {
    if (known.name() != artifact.name()) continue;
    known = std::move(artifact);
    return;
  }
  if (status->artifacts_size() < kMaxArtifacts) *status->add_artifacts() = std::move(artifact);
}

class SocketControl : public Control {
 public:
  SocketControl(const Options& options, const v1::TrainerId& id, std::optional<LogFile> log,
                std::unique_ptr<StopSignal> signal)
      : state_(options.directory, id),
        thread_(options, state_, std::move(log), std::move(signal),
                [this] { stop_requested_.store(true, std::memory_order_relaxed); }) {}

  absl::StatusOr<TrainerConfig> WaitForConfig() override { return state_.WaitForConfig(); }

  void SetReady(int store_port, const std::string& no_slipstream) override {
    state_.Change([&](v1::TrainerStatus* status) {
      status->set_state(v1::TRAINER_READY);
      status->set_store_port(store_port);
      status->set_no_slipstream(no_slipstream);
    });
  }

  void SetMembershipListener(std::function<void(const Assignment&)> on_assignment) override {
    state_.SetMembershipListener(std::move(on_assignment));
  }

  void SetPlanListener(std::function<void(const TrainingPlan&)> on_plan) override {
    state_.SetPlanListener(std::move(on_plan));
  }

  std::optional<ProfileRequest> profile_request() const override {
    return state_.profile_request();
  }

  void SetCheckpointListener(std::function<void(const CheckpointPlan&)> on_plan) override {
    state_.SetCheckpointListener(std::move(on_plan));
  }

  void SetRunning() override {
    state_.Change([](v1::TrainerStatus* status) { status->set_state(v1::TRAINER_RUNNING); });
  }

  void SetMembership(const MembershipStatus& membership) override {
    state_.Change(
        [&](v1::TrainerStatus* status) { *status->mutable_membership() = ToProto(membership); });
  }

  void SetEvaluation(const EvaluationResult& result) override {
    state_.Change(
        [&](v1::TrainerStatus* status) { *status->mutable_evaluation() = ToProto(result); });
  }

  void DropEvaluationAfter(int64_t step) override {
    state_.Change([step](v1::TrainerStatus* status) {
      if (status->evaluation().step() > step) status->clear_evaluation();
    });
  }

  void SetPlanStatus(const PlanStatus& plan) override {
    state_.Change([&](v1::TrainerStatus* status) { *status->mutable_plan() = ToProto(plan); });
  }

  void SetFigures(const RankFigures& figures) override {
    state_.Change(
        [&](v1::TrainerStatus* status) { *status->mutable_figures() = ToProto(figures); });
  }

  void SetProfile(const ProfileResult& result) override {
    state_.Change([&](v1::TrainerStatus* status) { *status->mutable_profile() = ToProto(result); });
  }

  void SetSave(const SaveStatus& save) override {
    state_.Change([&](v1::TrainerStatus* status) { PutSave(ToProto(save), status); });
  }

  void SetCheckpointFigures(const CheckpointFigures& figures) override {
    state_.Change(
        [&](v1::TrainerStatus* status) { *status->mutable_checkpoints() = ToProto(figures); });
  }

  void SetArtifact(const Artifact& artifact) override {
    state_.Change([&](v1::TrainerStatus* status) { PutArtifact(ToProto(artifact), status); });
  }

  int Finish(const absl::Status& status) override {
    if (IsForkedChild()) return 0;  // Its parent is the rank.
    const bool stopped = stop_requested();
    const bool failed = !status.ok() && !(stopped && absl::IsUnavailable(status));
    state_.Change([&](v1::TrainerStatus* last) {
      if (failed) {
        last->mutable_error()->set_kind(KindOf(status));
        last->mutable_error()->set_message(std::string(status.message()));
      } else if (!stopped) {
        last->set_state(v1::TRAINER_FINISHED);
      }
    });
    if (failed) {
      PACELINE_LOG(ERROR) << "failed kind=" << v1::FailureKind_Name(KindOf(status)) << " "
                          << status.message();
    } else {
      PACELINE_LOG(INFO) << (stopped ? "stopped" : "finished");
    }
    state_.WriteLastWords();
    thread_.Stop();
    return failed ? 1 : 0;
  }

 private:
  ControlState state_;
  ControlThread thread_;
};

}  // namespace

absl::StatusOr<TrainingPlan> PlanOf(const Assignment& assignment) {
  if (assignment.plan.version == 0) {
    return absl::InvalidArgumentError(
        "the worker daemon sent the store's address without a training plan; it must be of the "
        "same version as its trainer program");
  }
  return assignment.plan;
}

absl::StatusOr<std::unique_ptr<Control>> Control::Start(const Options& options) {
  PACELINE_ASSIGN_OR_RETURN(v1::TrainerId id, ParseId(options.directory));
  if (options.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.socket, ": a socket's path may have at most ",
                     sizeof(sockaddr_un::sun_path) - 1, " characters"));
  }
  std::optional<LogFile> log;
  std::unique_ptr<StopSignal> signal;
  if (options.guest) {
    WatchForks();
    PACELINE_ASSIGN_OR_RETURN(signal, StopSignal::Handle());
  } else {
    PACELINE_ASSIGN_OR_RETURN(
        log, LogFile::Attach(options.directory + "/log", options.log_segment_bytes));
    PACELINE_ASSIGN_OR_RETURN(signal, StopSignal::Block());
  }
  return std::unique_ptr<Control>(
      std::make_unique<SocketControl>(options, id, std::move(log), std::move(signal)));
}

}  // namespace paceline
