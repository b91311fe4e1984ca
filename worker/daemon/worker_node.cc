#include "worker/daemon/worker_node.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"
#include "common/leader_address.h"
#include "common/log.h"
#include "common/log_level.h"
#include "worker/daemon/trainers/lease_file.h"

namespace paceline {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
constexpr absl::Duration kPruneInterval = absl::Seconds(5);
// Changes within this time are sent in one report.
constexpr absl::Duration kCoalesce = absl::Milliseconds(10);
constexpr absl::Duration kMinReportInterval = absl::Milliseconds(50);
constexpr double kMaxLeaseSeconds = 86'400;
constexpr absl::Duration kMaxReportInterval = absl::Seconds(60);

}  // namespace

WorkerNode::WorkerNode(EventLoop& loop, Options options, NodeIdentity identity,
                       WorkerMetrics& metrics)
    : loop_(loop),
      options_(std::move(options)),
      metrics_(metrics),
      identity_(std::move(identity)),
      threads_(loop),
      trainers_(loop, options_.trainers, metrics, threads_, [this](Tell tell) { OnTell(tell); }),
      logs_(
          [this](const TrainerId& id) -> std::optional<LogRequests::Place> {
            const NodePaths& paths = options_.trainers.setup.paths;
            std::error_code error;
            if (!IsValid(id) || !std::filesystem::exists(paths.TrainerDir(id), error)) {
              return std::nullopt;
            }
            return LogRequests::Place{paths.LogDir(id), paths.LogMarks(id)};
          },
          [this](const TrainerId& id) { return trainers_.Runs(id); }),
      tasks_(loop, options_.tasks, [this] { OnTell(Tell::kSoon); }),
      check_(
          options_.check, threads_, [this] { return trainers_.Running(); },
          [this] { OnTell(Tell::kSoon); }),
      session_(loop, options_.session, *this),
      random_(options_.session.seed),
      standbys_(SplitAddresses(options_.session.controller)) {}

absl::Status WorkerNode::Start(const std::string& metrics_address) {
  metrics_address_ = metrics_address;
  lease_ = ReadLease(RuntimeDir());
  PACELINE_RETURN_IF_ERROR(trainers_.Start());
  session_.Start();
  Poll();
  PruneLogs();
  return absl::OkStatus();
}

void WorkerNode::Close(std::function<void()> closed) {
  if (trainers_.Running() == 0) KeepLease(RuntimeDir(), Lease());
  session_.Close(std::move(closed));
}

// ---- The session.

v1::Hello WorkerNode::MakeHello() {
  v1::Hello hello = options_.hello;
  hello.set_node_uid(identity_.node_uid());
  hello.set_cluster_id(identity_.cluster_id());
  hello.set_metrics_address(metrics_address_);
  hello.set_dropped_confirmed(sent_records_.dropped_confirmed());
  plan_revision_ = 0;
  report_number_ = 0;
  lease_.BeginSession();
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
  // For example a leader that was frozen and does not know that another one has taken over.
  if (welcome.term() > 0 && welcome.term() < term_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it leads no more: its term is ", welcome.term(), ", another controller has ", term_));
  }
  term_ = std::max(term_, welcome.term());
  interval_ = std::clamp(absl::Seconds(welcome.report_interval_s()), kMinReportInterval,
                         kMaxReportInterval);
  lease_.SetLength(absl::Seconds(std::clamp(welcome.lease_s(), 0.0, kMaxLeaseSeconds)));
  if (lease_.length() == absl::ZeroDuration()) KeepLease(RuntimeDir(), lease_);
  ready_ = true;
  held_on_ = false;
  metrics_.SetConnected(true, session_.reconnects());
  // Report what has changed since the Hello.
  report_due_ = true;
  // A random first delay keeps nodes that connect together, as after a start of the controller,
  // from reporting together.
  ReportEveryInterval(interval_ * std::uniform_real_distribution<double>(0.0, 1.0)(random_));
  return absl::OkStatus();
}

void WorkerNode::OnMessage(const v1::ControllerMessage& message) {
  if (message.has_lease()) return OnLease(message.lease());
  CheckLease();
  switch (message.kind_case()) {
    case v1::ControllerMessage::kPlan:
      OnPlan(message.plan());
      break;
    case v1::ControllerMessage::kLogRequest:
      logs_.Add(message.log_request(), absl::Now());
      session_.Wake();
      break;
    case v1::ControllerMessage::kLogCancel:
      logs_.Cancel(message.log_cancel().id());
      break;
    case v1::ControllerMessage::kCode:
      trainers_.OnCode(message.code());
      session_.Wake();
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
  trainers_.OnSessionLost();
  const int64_t lost = sent_records_.Lost();
  records_lost_ += lost;
  metrics_.AddDropped(lost);
}

// Steps follow each report and are not sent more often: decisions about them need seconds of steps,
// and a message costs the controller more than the steps in it.
std::optional<v1::WorkerMessage> WorkerNode::NextMessage() {
  v1::WorkerMessage message;
  if (std::exchange(report_due_, false)) {
    *message.mutable_report() = MakeReport();
  } else if (std::optional<v1::LogData> data = logs_.Next()) {
    *message.mutable_log() = *std::move(data);
  } else if (std::optional<v1::CodeRequest> code = trainers_.NextCodeRequest()) {
    *message.mutable_code_request() = *std::move(code);
  } else if (std::optional<v1::NodeSteps> steps = steps_due_ ? NextSteps() : std::nullopt) {
    *message.mutable_steps() = *std::move(steps);
  } else {
    steps_due_ = false;
    return std::nullopt;
  }
  return message;
}

std::optional<v1::NodeSteps> WorkerNode::NextSteps() {
  std::optional<v1::NodeSteps> steps = trainers_.NextSteps();
  const int64_t dropped = records_lost_ + trainers_.dropped();
  if (!steps.has_value()) {
    if (dropped == sent_records_.dropped_reported()) return std::nullopt;
    steps.emplace();  // A node that makes no more steps also reports drops.
  }
  steps->set_dropped(dropped);
  int64_t records = 0;
  for (const v1::StepBatch& batch : steps->batches()) records += batch.records_size();
  sent_records_.Sent(records, dropped);
  return steps;
}

// ---- Reports to the controller.

void WorkerNode::OnTell(Tell tell) {
  if (tell == Tell::kNow) return Report();
  if (tell == Tell::kNothing || report_timer_.has_value()) return;
  report_timer_ = loop_.After(kCoalesce, [this] { Report(); });
}

void WorkerNode::Report() {
  if (report_timer_.has_value()) loop_.Cancel(*report_timer_);
  report_timer_.reset();
  report_due_ = steps_due_ = true;
  session_.Wake();
}

void WorkerNode::ReportEveryInterval(absl::Duration first) {
  interval_timer_ = loop_.After(first, [this] {
    Report();
    ReportEveryInterval(interval_);
  });
}

v1::NodeReport WorkerNode::MakeReport() {
  v1::NodeReport report;
  report.set_number(++report_number_);
  lease_.Sent(report_number_, BootNow());
  sent_records_.ReportSent(report_number_);
  *report.mutable_trainers() = trainers_.Report();
  report.set_plan_revision(plan_revision_);
  *report.mutable_task_results() = tasks_.Results();
  if (check_.Result().has_value()) *report.mutable_check() = *check_.Result();
  return report;
}

// ---- The controller's wishes.

void WorkerNode::OnPlan(const v1::NodePlan& plan) {
  plan_revision_ = std::max(plan_revision_, plan.revision());
  SetLogLevel(FromProto(plan.log_level(), options_.log_level));
  trainers_.SetPlan(plan);
  tasks_.SetWanted(plan.tasks());
  check_.SetWanted(plan.has_check() ? std::optional(plan.check()) : std::nullopt);
  OnTell(Tell::kSoon);
}

// ---- The lease.

void WorkerNode::OnLease(const v1::Lease& granted) {
  sent_records_.Answered(granted.report_number());
  if (lease_.Grant(granted.report_number())) KeepLonger();
  CheckLease();
}

// A lease that ran out meanwhile, as on a machine that slept, stays so: its trainers end first.
void WorkerNode::OnStandby(const std::string& address, absl::Time sent, const std::string& leader) {
  CheckLease();
  if (!leader.empty()) {
    if (standbys_.Named(leader)) {
      PACELINE_LOG(WARNING) << "leader_not_listed address=" << leader
                            << " --controller does not name all controllers as they advertise "
                               "themselves: while nobody leads, the lease is not held on";
    }
    return;
  }
  standbys_.NobodyLeads(address, sent);
  if (!lease_.HoldOn(standbys_.LeadsSince(), BootNow())) return;
  KeepLonger();
  if (std::exchange(held_on_, true)) return;
  PACELINE_LOG(INFO) << "lease_held_without_leader controllers=" << standbys_.size()
                     << " all of them answer that nobody leads, so no rank is given away";
}

void WorkerNode::KeepLonger() {
  KeepLease(RuntimeDir(), lease_);
  ArmLeaseEnd();
}

// After a pause, this comes before all else: the node's ranks may belong to others by now.
void WorkerNode::CheckLease() {
  const absl::Time now = BootNow();
  const bool has_run_out = lease_.HasRunOut(now);
  if (has_run_out) trainers_.Fence(lease_, now);
  if (std::exchange(lease_has_run_out_, has_run_out) == has_run_out) return;
  if (has_run_out) {
    const std::vector<std::string> may_lead = standbys_.MayLead(lease_.end() - lease_.length());
    PACELINE_LOG(WARNING) << "lease_run_out length=" << absl::FormatDuration(lease_.length())
                          << " may_lead=" << absl::StrJoin(may_lead, ",")
                          << " trainers whose ranks may be given to other nodes end";
  } else {
    PACELINE_LOG(INFO) << "lease_held_again";
  }
}

void WorkerNode::ArmLeaseEnd() {
  if (lease_timer_.has_value()) loop_.Cancel(*lease_timer_);
  lease_timer_ = loop_.After(lease_.end() - BootNow(), [this] {
    lease_timer_.reset();
    CheckLease();
  });
}

std::string WorkerNode::RuntimeDir() const { return options_.trainers.setup.paths.runtime_dir; }

// ---- Periodic work.

void WorkerNode::Poll() {
  CheckLease();
  last_alive_ns_ = absl::ToUnixNanos(EventLoop::Now());
  trainers_.Poll(BootNow());
  session_.Wake();
  loop_.After(kPollInterval, [this] { Poll(); });
}

void WorkerNode::PruneLogs() {
  trainers_.PruneLogs();
  loop_.After(kPruneInterval, [this] { PruneLogs(); });
}

}  // namespace paceline
