#include "worker/daemon/worker_node.h"

#include <sys/epoll.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/daemon/log_files.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
constexpr absl::Duration kPruneInterval = absl::Seconds(5);
constexpr absl::Duration kAdoptionRetry = absl::Milliseconds(10);
// Changes that come together make one report.
constexpr absl::Duration kCoalesce = absl::Milliseconds(10);
constexpr absl::Duration kMinReportInterval = absl::Milliseconds(50);
constexpr absl::Duration kMaxReportInterval = absl::Seconds(60);

// For log lines.
std::string Named(const TrainerId& id) { return absl::StrCat("trainer=", TrainerName(id)); }

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

WorkerNode::WorkerNode(EventLoop& loop, Options options, NodeIdentity identity,
                       WorkerMetrics& metrics)
    : loop_(loop),
      options_(std::move(options)),
      metrics_(metrics),
      identity_(std::move(identity)),
      set_(options_.trainers),
      poller_(loop),
      sockets_(poller_, [this](const TrainerId& id,
                               const v1::TrainerStatus& status) { OnStatus(id, status); }),
      logs_(
          [this](const TrainerId& id) -> std::string {
            if (!IsValid(id)) return "";
            const std::string dir = options_.setup.paths.TrainerDir(id);
            std::error_code error;
            if (!std::filesystem::exists(dir, error)) return "";
            return absl::StrCat(dir, "/", trainer_dir::kLog);
          },
          [this](const TrainerId& id) {
            const NodeTrainer* const trainer = Find(id);
            return trainer != nullptr && !trainer->ended();
          }),
      session_(loop, options_.session, *this) {}

absl::Status WorkerNode::Start(const std::string& metrics_address) {
  metrics_address_ = metrics_address;
  PACELINE_RETURN_IF_ERROR(sockets_.Listen(options_.setup.paths.Socket()));
  FindTrainers();
  RemoveStrayRings();
  session_.Start();
  Poll();
  PruneLogs();
  return absl::OkStatus();
}

void WorkerNode::Close(std::function<void()> closed) { session_.Close(std::move(closed)); }

// ---- What an earlier daemon left.

void WorkerNode::FindTrainers() {
  const absl::StatusOr<std::vector<TrainerId>> ids = ListTrainerDirs(options_.setup.paths);
  if (!ids.ok()) {
    PACELINE_LOG(ERROR) << "trainers_not_found reason=\"" << ids.status().message() << "\"";
    return;
  }
  for (const TrainerId& id : *ids) {
    switch (NodeTrainer::Examine(options_.setup.paths, id)) {
      case NodeTrainer::Remains::kOld:
      case NodeTrainer::Remains::kUnborn:  // A plan that still lists it starts it.
        Apply(OldDirFound{id});
        break;
      case NodeTrainer::Remains::kStarted:
        Adopt(id);
        break;
    }
  }
}

// Of trainers whose dir is gone: a daemon that was killed at the wrong moment leaves them.
void WorkerNode::RemoveStrayRings() const {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.setup.paths.runtime_dir, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, ".ring") && !absl::ConsumeSuffix(&stem, ".ring.new")) continue;
    const std::optional<TrainerId> id = ParseTrainerName(stem);
    if (!id.has_value()) continue;
    const auto trainer = trainers_.find(*id);
    if (trainer != trainers_.end() && !trainer->second.ended()) continue;
    std::filesystem::remove(entry.path(), error);
  }
}

void WorkerNode::Adopt(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Adopt();
  Apply(TrainerFound{id, !trainer.ended(), trainer.plan().has_stop()});
  if (trainer.ended()) return;
  sockets_.SetCommand(id, trainer.Command());
  OnAdopted(trainer, status);
}

void WorkerNode::OnAdopted(NodeTrainer& trainer, const absl::Status& status) {
  const TrainerId id = trainer.id();
  if (!status.ok()) {
    // Its shim is just starting.
    loop_.After(kAdoptionRetry, [this, id] {
      NodeTrainer& again = *Find(id);
      OnAdopted(again, again.Adopt());
    });
    return;
  }
  if (!trainer.process().has_value()) return OnProcessEnded(id);
  metrics_.AddAdopted();
  PACELINE_LOG(INFO) << "trainer_adopted " << Named(id) << " shim=" << trainer.process()->shim();
  Watch(trainer);
  // A plan may have come meanwhile.
  if (plans_.count(id) > 0 && set_.StopRequested(id)) Stop(id, /*kill=*/false);
}

// ---- The session.

v1::Hello WorkerNode::MakeHello() {
  v1::Hello hello = options_.hello;
  hello.set_node_uid(identity_.node_uid());
  hello.set_cluster_id(identity_.cluster_id());
  hello.set_metrics_address(metrics_address_);
  plan_revision_ = 0;
  *hello.mutable_report() = MakeReport();
  return hello;
}

absl::Status WorkerNode::OnWelcome(const v1::Welcome& welcome) {
  if (welcome.cluster_id().empty()) return absl::InternalError("its Welcome names no cluster");
  if (identity_.cluster_id().empty()) {
    PACELINE_RETURN_IF_ERROR(identity_.Join(welcome.cluster_id()));
  }
  if (identity_.cluster_id() != welcome.cluster_id()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this worker's state belongs to cluster ", identity_.cluster_id(),
        ", the controller serves ", welcome.cluster_id(),
        "; give the right --controller, or an empty --state-dir to move the node there"));
  }
  interval_ = std::clamp(absl::Seconds(welcome.report_interval_s()), kMinReportInterval,
                         kMaxReportInterval);
  ready_ = true;
  metrics_.SetConnected(true, session_.reconnects());
  // What has changed since the Hello.
  report_due_ = true;
  ReportEveryInterval();
  return absl::OkStatus();
}

void WorkerNode::OnMessage(const v1::ControllerMessage& message) {
  switch (message.kind_case()) {
    case v1::ControllerMessage::kPlan:
      OnPlan(message.plan());
      break;
    case v1::ControllerMessage::kLogRequest:
      logs_.Add(message.log_request());
      session_.Wake();
      break;
    case v1::ControllerMessage::kLogCancel:
      logs_.Cancel(message.log_cancel().id());
      break;
    default:
      break;
  }
}

void WorkerNode::OnLost() {
  ready_ = false;
  metrics_.SetConnected(false, session_.reconnects());
  loop_.Cancel(interval_timer_);
  logs_.Clear();
}

std::optional<v1::WorkerMessage> WorkerNode::NextMessage() {
  v1::WorkerMessage message;
  if (std::exchange(report_due_, false)) {
    *message.mutable_report() = MakeReport();
  } else if (std::optional<v1::LogData> data = logs_.Next()) {
    *message.mutable_log() = *std::move(data);
  } else if (std::optional<v1::StepBatch> batch = NextBatch()) {
    *message.mutable_steps() = *std::move(batch);
  } else {
    return std::nullopt;
  }
  return message;
}

// The trainers take turns, so that one with short steps does not hold up the others.
std::optional<v1::StepBatch> WorkerNode::NextBatch() {
  auto next = last_batch_.has_value() ? trainers_.upper_bound(*last_batch_) : trainers_.begin();
  for (size_t tried = 0; tried < trainers_.size(); ++tried, ++next) {
    if (next == trainers_.end()) next = trainers_.begin();
    if (!next->second.ring().has_value()) continue;
    std::optional<v1::StepBatch> batch = next->second.ring()->TakeBatch();
    if (!batch.has_value()) continue;
    last_batch_ = next->first;
    *batch->mutable_id() = IdToProto(next->first);
    return batch;
  }
  return std::nullopt;
}

void WorkerNode::Changed() {
  if (report_timer_.has_value()) return;
  report_timer_ = loop_.After(kCoalesce, [this] {
    report_timer_.reset();
    report_due_ = true;
    session_.Wake();
  });
}

void WorkerNode::ReportEveryInterval() {
  interval_timer_ = loop_.After(interval_, [this] {
    report_due_ = true;
    session_.Wake();
    ReportEveryInterval();
  });
}

v1::NodeReport WorkerNode::MakeReport() const {
  v1::NodeReport report;
  for (const auto& [id, trainer] : trainers_) *report.add_trainers() = trainer.Report();
  report.set_plan_revision(plan_revision_);
  return report;
}

// ---- What the controller wants.

void WorkerNode::OnPlan(const v1::NodePlan& plan) {
  plan_revision_ = std::max(plan_revision_, plan.revision());
  PlanReceived event;
  plans_.clear();
  for (const v1::TrainerPlan& wanted : plan.trainers()) {
    const TrainerId id = IdFromProto(wanted.id());
    if (!IsValid(id)) {
      PACELINE_LOG(ERROR) << "plan_entry_ignored reason=\"impossible id\"";
      continue;
    }
    plans_[id] = wanted;
    std::optional<absl::Duration> stop;
    if (wanted.has_stop()) stop = absl::Seconds(std::max(0.0, wanted.stop().grace_s()));
    event.trainers.push_back({id, stop});
    NodeTrainer* const trainer = Find(id);
    if (trainer == nullptr || trainer->ended()) continue;
    trainer->SetPlan(wanted);
    sockets_.SetCommand(id, trainer->Command());
  }
  Apply(event);
  Changed();
}

void WorkerNode::Apply(const TrainerEvent& event) {
  Execute(set_.Step(event, EventLoop::Now()));
  ArmDeadline();
}

void WorkerNode::Execute(const std::vector<TrainerAction>& actions) {
  for (const TrainerAction& action : actions) {
    std::visit(Overloaded{
                   [this](const StartTrainer& start) { Start(start.id); },
                   [this](const SkipTrainer& skip) { Skip(skip.id); },
                   [this](const TerminateTrainer& stop) { Stop(stop.id, /*kill=*/false); },
                   [this](const KillTrainer& stop) { Stop(stop.id, /*kill=*/true); },
                   [this](const ForgetTrainer& forget) { Forget(forget.id); },
                   [this](const DeleteTrainerDir& gone) { DeleteDir(gone.id); },
               },
               action);
  }
}

void WorkerNode::ArmDeadline() {
  if (deadline_.has_value()) loop_.Cancel(*deadline_);
  deadline_.reset();
  const absl::Time next = set_.NextDeadline();
  if (next == absl::InfiniteFuture()) return;
  deadline_ = loop_.After(next - EventLoop::Now(), [this] {
    deadline_.reset();
    Execute(set_.Tick(EventLoop::Now()));
    ArmDeadline();
  });
}

void WorkerNode::Start(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Start(plans_.at(id));
  if (!status.ok()) trainer.FailStart(status);
  Changed();
  if (trainer.ended()) {
    OnEnded(trainer);
    // Not now: an action must not change what decides under its feet.
    loop_.Post([this, id] { Apply(TrainerEnded{id}); });
    return;
  }
  PACELINE_LOG(INFO) << "trainer_started " << Named(id) << " shim=" << trainer.process()->shim();
  sockets_.SetCommand(id, trainer.Command());
  Watch(trainer);
}

void WorkerNode::Skip(const TrainerId& id) {
  trainers_.try_emplace(id, options_.setup, id).first->second.Skip(plans_.at(id));
  Changed();
}

void WorkerNode::Stop(const TrainerId& id, bool kill) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr || !trainer->process().has_value()) return;
  // A later daemon must know that the end was wanted, before it comes.
  v1::TrainerPlan plan = trainer->plan();
  plan.mutable_stop();
  trainer->SetPlan(plan);
  PACELINE_LOG(INFO) << (kill ? "trainer_killed " : "trainer_asked_to_stop ") << Named(id);
  kill ? trainer->process()->Kill() : trainer->process()->Terminate();
}

void WorkerNode::Forget(const TrainerId& id) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr) return;
  trainer->Forget();
  trainers_.erase(id);
  dropped_.erase(id);
  metrics_.ForgetTrainer(id);
  Changed();
}

void WorkerNode::DeleteDir(const TrainerId& id) {
  std::error_code error;
  std::filesystem::remove_all(options_.setup.paths.TrainerDir(id), error);
}

// ---- What happens to the trainers.

void WorkerNode::Watch(NodeTrainer& trainer) {
  poller_.Arm(trainer.process()->fd(), EPOLLIN, [this, id = trainer.id()] { OnProcessEnded(id); });
}

void WorkerNode::OnProcessEnded(const TrainerId& id) {
  NodeTrainer& trainer = *Find(id);
  if (trainer.process().has_value()) poller_.Disarm(trainer.process()->fd());
  trainer.Judge(set_.StopRequested(id));
  OnEnded(trainer);
  // Before it is forgotten: its last steps are worth to be seen.
  session_.Wake();
  Apply(TrainerEnded{id});
  Changed();
}

void WorkerNode::OnEnded(const NodeTrainer& trainer) {
  const v1::TrainerExit exit = trainer.Report().exit();
  metrics_.AddEnded(exit.failure());
  sockets_.Forget(trainer.id());
  PACELINE_LOG(INFO) << "trainer_ended " << Named(trainer.id())
                     << " failure=" << v1::FailureKind_Name(exit.failure())
                     << " code=" << exit.exit_code() << " signal=" << exit.signal() << " reason=\""
                     << exit.message() << "\"";
}

void WorkerNode::OnStatus(const TrainerId& id, const v1::TrainerStatus& status) {
  NodeTrainer* const trainer = Find(id);
  if (trainer == nullptr || trainer->ended()) return;
  trainer->OnStatus(status);
  Changed();
}

void WorkerNode::Poll() {
  last_alive_ns_ = absl::ToUnixNanos(EventLoop::Now());
  std::map<v1::TrainerState, int> by_state;
  for (auto& [id, trainer] : trainers_) {
    if (!trainer.ended() && trainer.Poll()) Changed();
    const v1::TrainerReport report = trainer.Report();
    ++by_state[report.state()];
    if (!trainer.ring().has_value()) continue;
    metrics_.SetTrainer(id, report.progress(), trainer.ring()->phase_ns());
    const int64_t dropped = trainer.ring()->dropped();
    metrics_.AddDropped(dropped - std::exchange(dropped_[id], dropped));
  }
  metrics_.SetTrainers(by_state);
  session_.Wake();
  loop_.After(kPollInterval, [this] { Poll(); });
}

void WorkerNode::PruneLogs() {
  for (const auto& [id, trainer] : trainers_) {
    if (trainer.ended()) continue;
    LogFiles(absl::StrCat(options_.setup.paths.TrainerDir(id), "/", trainer_dir::kLog))
        .DeleteOldest(options_.log_segments);
  }
  loop_.After(kPruneInterval, [this] { PruneLogs(); });
}

NodeTrainer* WorkerNode::Find(const TrainerId& id) {
  const auto found = trainers_.find(id);
  return found == trainers_.end() ? nullptr : &found->second;
}

}  // namespace paceline
