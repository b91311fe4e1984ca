#include "worker/daemon/worker_node.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/daemon/log_files.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
constexpr absl::Duration kPruneInterval = absl::Seconds(5);
// Changes that come together make one report.
constexpr absl::Duration kCoalesce = absl::Milliseconds(10);
constexpr absl::Duration kMinReportInterval = absl::Milliseconds(50);
constexpr absl::Duration kMaxReportInterval = absl::Seconds(60);

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
      tasks_(loop, options_.tasks, [this] { Changed(); }),
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
  *report.mutable_task_results() = tasks_.Results();
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
    v1::TrainerPlan kept = wanted;
    // A stop that was asked for is not taken back.
    if (set_.StopRequested(id)) kept.mutable_stop();
    trainer->SetPlan(kept);
    sockets_.SetCommand(id, trainer->Command());
  }
  Apply(event);
  tasks_.SetWanted(plan.tasks());
  Changed();
}

void WorkerNode::Poll() {
  last_alive_ns_ = absl::ToUnixNanos(EventLoop::Now());
  std::map<v1::TrainerState, int> by_state;
  for (auto& [id, trainer] : trainers_) {
    if (!trainer.ended() && trainer.Poll()) Changed();
    const v1::TrainerReport report = trainer.Report();
    ++by_state[report.state()];
    metrics_.SetFigures(id, report.figures(), report.plan());
    if (report.has_checkpoints()) metrics_.SetCheckpoints(id, report.checkpoints());
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
