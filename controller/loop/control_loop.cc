#include "controller/loop/control_loop.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "controller/loop/change_log.h"
#include "controller/metrics/metrics.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"
#include "controller/wire/convert_plan.h"
#include "controller/wire/convert_telemetry.h"

namespace paceline {
namespace {

// A watcher that is further behind has to list again. An event shows each rank of its job, so that
// events of large jobs have megabytes; of those fewer are kept.
constexpr size_t kWatchedChanges = 8192;
constexpr size_t kWatchedBytes = 64 << 20;

// Begin counts one more for each key, Finish one fewer.
template <typename Key>
void Begin(const std::set<Key>& keys, std::map<Key, int>& counts) {
  for (const Key& key : keys) ++counts[key];
}
template <typename Key>
void Finish(const std::set<Key>& keys, std::map<Key, int>& counts) {
  for (const Key& key : keys) {
    const auto count = counts.find(key);
    if (--count->second == 0) counts.erase(count);
  }
}

}  // namespace

Moment ControlLoop::Now() { return {EventLoop::Now(), absl::Now()}; }

ControlLoop::ControlLoop(EventLoop* loop, StateStore* store, ControllerMetrics* metrics,
                         StoredState state, const Cluster::Options& options,
                         const StragglerOptions& stragglers)
    : loop_(loop),
      metrics_(metrics),
      cluster_id_(std::move(state.cluster_id)),
      term_(state.term),
      cluster_(options),
      stragglers_(stragglers, WithLadder, StrategyOf),
      steps_({}, NumbersOf),
      job_log_(state.starts, kWatchedChanges, kWatchedBytes),
      node_log_(state.starts, kWatchedChanges, kWatchedBytes),
      throttle_(kProgressPeriod),
      refreshes_(loop) {
  cluster_.Restore(std::move(state.jobs), std::move(state.nodes), Now(),
                   std::move(state.automation));
  transitions_.Restore(cluster_, state.decisions);
  WriteBatch batch;
  Write(histories_.Restore(std::move(state.events), cluster_), batch);
  StragglerActions decided = stragglers_.Restore(std::move(state.decisions), cluster_, Now());
  for (auto& [id, entry] : state.requests) requests_.Add(id, std::move(entry));
  ForgetRequests(batch);
  for (const auto& [id, job] : cluster_.jobs()) shown_jobs_.emplace(id, job.submitter);
  for (const auto& [name, node] : cluster_.nodes()) shown_nodes_.insert(name);
  metrics_->ShowCluster(cluster_, Now());
  commits_ = std::make_unique<CommitQueue>(
      loop, store,
      CommitQueue::Callbacks{[this](const JobId& id, WriteBatch& batch) {
                               const Job* job = cluster_.FindJob(id);
                               if (job != nullptr) batch.puts[JobKey(id)] = EncodeJob(*job);
                             },
                             [this](absl::Duration took) { metrics_->Committed(took); },
                             [this](absl::Status status) { listeners_.store_failed(status); }});
  Carry({}, std::move(decided), std::move(batch), [](const absl::Status&) {});
  RefreshMetrics();
}

ControlLoop::~ControlLoop() = default;

void ControlLoop::RefreshMetrics() {
  metrics_->QueuesSeen(loop_->TakeMostWaiting(), commits_->TakeMostInLine());
  const auto refresh = [this](const JobId& id) {
    return 1 + metrics_->RefreshJob(id, cluster_, stragglers_, Now());
  };
  refreshes_.Add<JobId>(metrics_->RefreshNodes(cluster_), refresh, [this] {
    loop_->After(kMetricsRefresh, [this, due = EventLoop::Now() + kMetricsRefresh] {
      metrics_->LoopDelayed(EventLoop::Now() - due);
      RefreshMetrics();
    });
  });
}

void ControlLoop::Apply(const Event& event) {
  Run(event, {}, [](const absl::Status&) {});
}

void ControlLoop::ApplyRequest(const RequestId& request, const JobId& job, const Event& event,
                               CommitQueue::Then then) {
  Run(event, Remember(request, job), std::move(then));
}

void ControlLoop::TakeSteps(const NodeName& node, const TrainerId& trainer,
                            absl::Span<const StepTimes> steps) {
  loop_->CheckOnLoop();
  steps_.TakeSteps(cluster_, node, trainer, steps);
  StragglerActions decided = stragglers_.TakeSteps(cluster_, node, trainer, steps, Now());
  if (!decided.empty()) return Carry({}, std::move(decided), {}, [](const absl::Status&) {});
  if (!transitions_.HasNewVerdicts(trainer.job, stragglers_)) return;
  const HistoryActions events = histories_.Take(
      cluster_, transitions_.LookAtVerdicts(trainer.job, stragglers_), {}, Now().wall);
  WriteBatch batch;
  Write(events, batch);
  commits_->Add({std::move(batch), {}}, [this, events](const absl::Status& stored) {
    if (stored.ok()) ShowHistories(events, /*deleted=*/false);
  });
}

std::optional<Refusal> ControlLoop::RefuseAdvice(const JobId& job, int64_t advice) {
  return stragglers_.RefuseApply(cluster_, job, advice);
}

void ControlLoop::ApplyAdvice(const RequestId& request, const JobId& job, int64_t advice,
                              const std::string& by, CommitQueue::Then then) {
  Carry({}, stragglers_.Apply(cluster_, job, advice, by, Now()), Remember(request, job),
        std::move(then));
}

void ControlLoop::Store(const std::optional<RequestId>& request, WriteBatch batch,
                        CommitQueue::Then then) {
  loop_->CheckOnLoop();
  if (request.has_value()) {
    WriteBatch remembered = Remember(*request, JobId());
    batch.puts.merge(remembered.puts);
    batch.deletes.insert(batch.deletes.end(), remembered.deletes.begin(), remembered.deletes.end());
  }
  commits_->Add({std::move(batch), {}}, std::move(then));
}

WriteBatch ControlLoop::Remember(const RequestId& request, const JobId& job) {
  WriteBatch batch;
  ForgetRequests(batch);
  const RequestLog::Entry entry{request.fingerprint, job, absl::Now(), request.checkpoint};
  batch.puts[RequestKey(request.id)] = EncodeRequest(entry);
  requests_.Add(request.id, entry);
  return batch;
}

void ControlLoop::ForgetRequests(WriteBatch& batch) {
  for (const std::string& id : requests_.Expire(absl::Now())) {
    batch.deletes.push_back(RequestKey(id));
  }
}

void ControlLoop::Run(const Event& event, WriteBatch batch, CommitQueue::Then then) {
  loop_->CheckOnLoop();
  const absl::Time begun = EventLoop::Now();
  Actions actions = cluster_.Step(event, Now());
  StragglerActions decided = stragglers_.Follow(cluster_, actions, Now());
  metrics_->EventTaken(EventLoop::Now() - begun);
  Carry(std::move(actions), std::move(decided), std::move(batch), std::move(then));
}

void ControlLoop::Carry(Actions actions, StragglerActions decided, WriteBatch batch,
                        CommitQueue::Then then) {
  const auto follow = [this](const Actions& stepped) {
    return stragglers_.Follow(cluster_, stepped, Now());
  };
  CarryOut(cluster_, follow, Now(), actions, decided);
  steps_.Follow(cluster_, actions, Now());
  for (const StragglerActions::Key& key : decided.store) {
    const RemedyDecision* decision = stragglers_.Find(key.first)->policy().Find(key.second);
    batch.puts[DecisionKey(key.first, key.second)] = EncodeDecision(*decision);
  }
  for (const auto& [job, id] : decided.forget) batch.deletes.push_back(DecisionKey(job, id));
  for (const JobId& id : actions.delete_jobs) batch.deletes.push_back(JobKey(id));
  for (const NodeName& name : actions.store_nodes) {
    batch.puts[NodeKey(name)] = EncodeNode(cluster_.nodes().at(name), cluster_);
  }
  if (actions.store_automation) {
    batch.puts[kAutomationKey] = EncodeAutomation(cluster_.automation());
  }
  // Put into words now: a later event may change things before this one is durable.
  const JobTransitions happened = transitions_.Look(cluster_, stragglers_, actions, decided);
  metrics_->Count(happened);
  const HistoryActions events =
      histories_.Take(cluster_, happened, actions.delete_jobs, Now().wall);
  Write(events, batch);
  std::vector<ChangeLine> lines = ChangeLines(cluster_, happened, actions);
  std::vector<std::pair<NodeName, v1::NodePlan>> plans;
  for (const NodeName& name : actions.send_plans) plans.emplace_back(name, PlanFor(name));
  ArmTimer();
  Begin(actions.changed_jobs, job_changes_);
  Begin(actions.store_nodes, node_changes_);
  commits_->Add({std::move(batch), actions.store_jobs},
                [this, actions, events, lines = std::move(lines), plans = std::move(plans),
                 then = std::move(then)](const absl::Status& stored) {
                  Finish(actions.changed_jobs, job_changes_);
                  Finish(actions.store_nodes, node_changes_);
                  if (stored.ok()) {
                    WriteLines(lines);
                    for (const auto& [name, plan] : plans) listeners_.plan(name, plan);
                    Show(actions);
                    ShowHistories(events, !actions.delete_jobs.empty());
                  }
                  then(stored);
                });
}

void ControlLoop::Write(const HistoryActions& events, WriteBatch& batch) const {
  for (const auto& [job, id] : events.store) {
    batch.puts[EventKey(job, id)] = EncodeEvent(*histories_.Find(job)->Find(id));
  }
  for (const auto& [job, id] : events.forget) batch.deletes.push_back(EventKey(job, id));
}

void ControlLoop::ShowHistories(const HistoryActions& events, bool deleted) {
  if (events.store.empty() && !deleted) return;
  histories_.Release(events);
  listeners_.histories_changed();
}

void ControlLoop::Show(const Actions& actions) {
  const int64_t reported = job_log_.revision();
  for (const JobId& id : actions.show_jobs) {
    const bool is_progress = actions.changed_jobs.count(id) == 0;
    if (!is_progress || throttle_.MayShow(id, EventLoop::Now())) ShowJob(id);
  }
  for (const JobId& id : actions.delete_jobs) {
    v1::JobEvent event;
    event.set_type(v1::DELETED);
    event.mutable_job()->set_id(id.value());
    WatchKey key{id.value(), ""};
    // For watchers who may know of the job.
    const auto shown = shown_jobs_.find(id);
    if (shown != shown_jobs_.end()) {
      key.submitter = shown->second;
      event.mutable_job()->set_submitter(key.submitter);
      shown_jobs_.erase(shown);
    }
    job_log_.Append(std::move(key), std::move(event));
    throttle_.Forget(id);
  }
  for (const NodeName& name : actions.show_nodes) ShowNode(name);
  if (job_log_.revision() != reported) listeners_.jobs_changed();
  if (!actions.show_nodes.empty()) listeners_.nodes_changed();
  metrics_->ShowChanges(cluster_, actions, Now());
  ArmProgressTimer();
}

void ControlLoop::ShowJob(const JobId& id) {
  const Job* job = cluster_.FindJob(id);
  if (job == nullptr || job_changes_.count(id) > 0) return;  // Null: a later event deleted it.
  v1::JobEvent event;
  *event.mutable_job() = ToProto(*job, absl::Now());
  event.set_type(shown_jobs_.emplace(id, job->submitter).second ? v1::ADDED : v1::MODIFIED);
  event.mutable_job()->set_revision(job_log_.revision() + 1);
  job_log_.Append({id.value(), job->submitter}, std::move(event));
  if (job->ended_already()) {
    throttle_.Forget(id);
  } else {
    throttle_.Shown(id, EventLoop::Now());
  }
}

void ControlLoop::ShowNode(const NodeName& name) {
  if (node_changes_.count(name) > 0) return;
  v1::NodeEvent event;
  *event.mutable_node() = ToProto(cluster_.nodes().at(name), cluster_);
  event.set_type(shown_nodes_.insert(name).second ? v1::ADDED : v1::MODIFIED);
  event.mutable_node()->set_revision(node_log_.revision() + 1);
  node_log_.Append({name.value(), ""}, std::move(event));
}

void ControlLoop::ArmProgressTimer() {
  const absl::Time due = throttle_.NextDue();
  if (due == progress_due_) return;
  if (progress_due_ != absl::InfiniteFuture()) loop_->Cancel(progress_timer_);
  progress_due_ = due;
  if (due == absl::InfiniteFuture()) return;
  progress_timer_ = loop_->After(due - EventLoop::Now(), [this] {
    progress_due_ = absl::InfiniteFuture();
    WhenDurable([this, due = throttle_.TakeDue(EventLoop::Now())](const absl::Status& stored) {
      if (!stored.ok()) return;
      for (const JobId& id : due) ShowJob(id);
      listeners_.jobs_changed();
    });
    ArmProgressTimer();
  });
}

void ControlLoop::ArmTimer() {
  const absl::Time due = std::min(cluster_.NextDeadline(), stragglers_.NextDeadline());
  if (due == timer_due_) return;
  if (timer_due_ != absl::InfiniteFuture()) loop_->Cancel(timer_);
  timer_due_ = due;
  if (due == absl::InfiniteFuture()) return;
  timer_ = loop_->After(due - EventLoop::Now(), [this] {
    timer_due_ = absl::InfiniteFuture();
    Apply(TimePassed{});
    StragglerActions decided = stragglers_.Tick(cluster_, Now());
    if (!decided.empty()) Carry({}, std::move(decided), {}, [](const absl::Status&) {});
    ArmTimer();
  });
}

v1::Job ControlLoop::Describe(const Job& job) const {
  v1::Job described = ToProto(job, absl::Now());
  described.set_revision(job_log_.revision());
  return described;
}

v1::Node ControlLoop::Describe(const Node& node) const {
  v1::Node described = ToProto(node, cluster_);
  described.set_revision(node_log_.revision());
  return described;
}

v1::NodePlan ControlLoop::PlanFor(const NodeName& node) const {
  v1::NodePlan plan = ToProto(cluster_.PlanFor(node), cluster_.TasksFor(node));
  const std::optional<CheckOrder> check = cluster_.CheckFor(node);
  if (check.has_value()) *plan.mutable_check() = ToProto(*check);
  plan.set_log_level(LogLevelOf(node));
  return plan;
}

v1::LogLevel ControlLoop::LogLevelOf(const NodeName& node) const {
  const auto found = log_levels_.find(node);
  return found == log_levels_.end() ? v1::LOG_LEVEL_UNSPECIFIED : found->second;
}

void ControlLoop::SetLogLevel(const NodeName& node, v1::LogLevel level) {
  log_levels_[node] = level;
  // Sent when durable, since the plan may hold changes that are not yet.
  WhenDurable([this, node, plan = PlanFor(node)](const absl::Status& stored) {
    if (stored.ok()) listeners_.plan(node, plan);
  });
}

}  // namespace paceline
