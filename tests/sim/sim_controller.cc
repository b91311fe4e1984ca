#include "tests/sim/sim_controller.h"

#include <algorithm>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/membership.h"
#include "controller/store/records.h"
#include "tests/sim/copy_judge.h"
#include "tests/sim/elastic_judge.h"
#include "tests/sim/observer.h"
#include "tests/sim/replica_judge.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/straggler_judge.h"

namespace paceline::sim {
namespace {

// Whether the planned change before the present one was to begin with a mean, and was called off.
bool HasMeanFailed(const Job& job) {
  bool failed = false;
  for (const MembershipChange& change : job.recovery.history) {
    if (!change.planned || change.generation == job.generation) continue;
    failed = change.averages_first && change.ended == absl::InfinitePast();
  }
  return failed;
}

TrainerOrder ToOrder(const PlannedTrainer& planned) {
  const Job& job = *planned.job;
  const Membership& membership = planned.membership;
  TrainerOrder order;
  order.id = planned.id;
  order.slot = planned.slot;
  order.stop = planned.stop_grace;
  order.version = job.plan.version.value();
  order.save_stacks = planned.save_stacks;
  order.leased = planned.leased;
  order.waits_less = !job.plan.ladder.empty() || job.plan.slipstream.has_value();
  if (planned.restores) order.restore_from = job.restored_from;
  order.generation = membership.generation.value();
  order.rank = membership.rank.value();
  order.world_size = membership.world_size;
  order.shards = membership.shards;
  order.store_address = planned.store_address;
  order.planned = membership.planned;
  order.hand_over = membership.hand_over.value();
  order.averages_first = membership.averages_first;
  order.mean_failed = HasMeanFailed(job);
  if (membership.copies.has_value()) {
    const MemberCopies& copies = *membership.copies;
    order.copies = {order.generation,    copies.seat,          copies.buddy,
                    copies.ward,         copies.complete_step, copies.complete_generation.value(),
                    copies.settled_step, copies.restore};
  }
  if (!SavesCheckpoints(job.request)) return order;
  // Like CheckpointPlanFor.
  const auto& save = job.checkpoints.order;
  if (save.has_value() && save->generation == job.generation && order.rank != -1 &&
      ChangeUnderWay(job) == nullptr) {
    order.save_order = save->number;
  }
  if (order.rank == 0) order.commit_steps = CommitSteps(job);
  return order;
}

}  // namespace

SimController::SimController(World& world)
    : world_(world), random_(world.random.Fork()), late_(world.settings.straggler_seed) {}

Moment SimController::Now() const {
  const absl::Duration passed = absl::Microseconds(world_.time.now());
  return {absl::UnixEpoch() + steady_offset_ + passed,
          absl::FromUnixSeconds(1700000000) + wall_offset_ + passed};
}

void SimController::Start() {
  ++start_number_;
  world_.trace.Add("controller starts, number ", start_number_);
  steady_offset_ = absl::Seconds(random_.Between(0, 1000));
  timer_ = kNever;
  Cluster::Options options;
  options.node_lease = absl::Microseconds(world_.settings.lease);
  options.looks.per_rank = absl::Microseconds(world_.settings.look_per_rank);
  cluster_.emplace(options);
  std::vector<Job> jobs;
  std::vector<Node> nodes;
  std::map<JobId, std::vector<RemedyDecision>> decisions;
  if (world_.settings.encoded) {
    auto state = LoadState(encoded_);
    if (!state.ok()) return world_.trace.Fail("store: ", state.status().message());
    jobs = std::move(state->jobs);
    nodes = std::move(state->nodes);
    decisions = std::move(state->decisions);
  } else {
    for (const auto& [id, job] : stored_.jobs) jobs.push_back(*job);
    for (const auto& [name, node] : stored_.nodes) nodes.push_back(*node);
    for (const auto& [key, decision] : stored_.decisions) {
      decisions[key.first].push_back(*decision);
    }
  }
  cluster_->Restore(std::move(jobs), std::move(nodes), Now(), stored_.automation);
  world_.observer->OnRestored(*cluster_, stored_);
  world_.replica_judge->OnRestored(*cluster_);
  world_.elastic_judge->OnRestored(*cluster_);
  RestoreStragglers(std::move(decisions));
}

void SimController::Crash() {
  if (!is_up()) return;
  world_.trace.Add("controller dies");
  if (!queue_.empty() && random_.Chance(0.5)) Store(queue_.front());
  queue_.clear();
  committing_ = false;
  cluster_.reset();
  stragglers_.reset();
  ++timer_number_;
  for (const auto& [name, session] : sessions_) CloseAtNode(session);
  sessions_.clear();
}

void SimController::Apply(const Event& event, Answer answer) {
  Actions actions = cluster_->Step(event, Now());
  StragglerActions decided = Follow(actions);
  Carry(std::move(actions), std::move(decided), std::move(answer));
}

void SimController::Carry(Actions actions, StragglerActions decided, Answer answer) {
  const auto follow = [this](const Actions& stepped) { return Follow(stepped); };
  CarryOut(*cluster_, follow, Now(), actions, decided);
  Batch batch;
  PutDecisions(decided, batch);
  for (const JobId& id : actions.store_jobs) {
    const Job& job = cluster_->jobs().at(id);
    batch.puts.jobs[id] = std::make_shared<const Job>(job);
    if (world_.settings.encoded) batch.encoded.puts[JobKey(id)] = EncodeJob(job);
  }
  for (const JobId& id : actions.delete_jobs) {
    batch.deletes.push_back(id);
    if (world_.settings.encoded) batch.encoded.deletes.push_back(JobKey(id));
  }
  for (const NodeName& name : actions.store_nodes) {
    const Node& node = cluster_->nodes().at(name);
    batch.puts.nodes[name] = std::make_shared<const Node>(node);
    if (world_.settings.encoded) batch.encoded.puts[NodeKey(name)] = EncodeNode(node, *cluster_);
  }
  for (const NodeName& name : actions.send_plans) {
    batch.plans.emplace_back(name, PlanFor(name));
    world_.observer->OnPlanned(*cluster_, *batch.plans.back().second);
  }
  if (actions.store_automation) batch.automation = cluster_->automation();
  batch.answer = std::move(answer);
  world_.observer->OnStep(*cluster_, batch.puts, batch.automation);
  world_.replica_judge->OnStep(*cluster_);
  world_.copy_judge->OnStep(*cluster_);
  world_.elastic_judge->OnStep(*cluster_);
  world_.straggler_judge->OnStored(*cluster_, *stragglers_, batch.puts, batch.forgotten);
  ArmTimer();
  Add(std::move(batch));
}

void SimController::Add(Batch batch) {
  if (batch.empty() && queue_.empty()) return Finish(batch);
  queue_.push_back(std::move(batch));
  if (!committing_) CommitNext();
}

void SimController::CommitNext() {
  committing_ = true;
  const int64_t start = start_number_;
  const Micros delay =
      queue_.front().empty() ? 0 : 50 + random_.Exponential(world_.settings.store_delay);
  world_.time.After(delay, [this, start] {
    if (start != start_number_ || !is_up() || queue_.empty()) return;
    const bool calm = world_.time.now() > world_.settings.quiet;
    if (!calm && random_.Chance(world_.settings.store_fails)) {
      world_.trace.Add("store fails");
      queue_.clear();
      return Crash();
    }
    Store(queue_.front());
    if (!calm && random_.Chance(world_.settings.crash_at_commit)) {
      queue_.clear();
      return Crash();
    }
    const Batch batch = std::move(queue_.front());
    queue_.pop_front();
    committing_ = false;
    Finish(batch);
    if (is_up() && !queue_.empty() && !committing_) CommitNext();
  });
}

void SimController::Store(const Batch& batch) {
  for (const auto& [id, job] : batch.puts.jobs) stored_.jobs[id] = job;
  for (const auto& [name, node] : batch.puts.nodes) stored_.nodes[name] = node;
  for (const JobId& id : batch.deletes) stored_.jobs.erase(id);
  for (const auto& [key, decision] : batch.puts.decisions) stored_.decisions[key] = decision;
  for (const StragglerActions::Key& key : batch.forgotten) stored_.decisions.erase(key);
  world_.straggler_judge->OnDurable(batch.puts);
  if (batch.automation.has_value()) stored_.automation = *batch.automation;
  if (world_.settings.encoded) (void)encoded_.Commit(batch.encoded);
}

void SimController::Finish(const Batch& batch) {
  for (const auto& [name, plan] : batch.plans) SendPlan(name, plan);
  if (batch.answer) batch.answer();
}

void SimController::SendPlan(const NodeName& node, const std::shared_ptr<const NodeOrders>& plan) {
  const auto found = sessions_.find(node);
  if (found == sessions_.end()) return;
  const SessionPtr& session = found->second;
  if (session->last_plan != nullptr && *session->last_plan == *plan) return;
  session->last_plan = plan;
  world_.observer->OnPlanSent(node, *plan);
  SimNode* const receiver = world_.nodes[session->node].get();
  world_.network->SendDown(session, [receiver, session, plan] { receiver->OnPlan(session, plan); });
}

std::shared_ptr<const NodeOrders> SimController::PlanFor(const NodeName& node) const {
  auto orders = std::make_shared<NodeOrders>();
  for (const PlannedTrainer& planned : cluster_->PlanFor(node)) {
    orders->trainers.push_back(ToOrder(planned));
  }
  orders->tasks = cluster_->TasksFor(node);
  return orders;
}

void SimController::ArmTimer() {
  const absl::Time due = std::min(cluster_->NextDeadline(), stragglers_->NextDeadline());
  Micros at = due == absl::InfiniteFuture()
                  ? kNever
                  : world_.time.now() + absl::ToInt64Microseconds(absl::Ceil(
                                            std::max(due - Now().steady, absl::ZeroDuration()),
                                            absl::Microseconds(1)));
  if (at == timer_) return;
  timer_ = at;
  const int64_t number = ++timer_number_;
  if (at == kNever) return;
  // The loop is busy now and then.
  if (world_.settings.stragglers) at += late_.Exponential(2 * kMilli);
  world_.time.At(at, [this, number] {
    if (number != timer_number_ || !is_up()) return;
    timer_ = kNever;
    Apply(TimePassed{});
    if (!is_up()) return;
    StragglerActions decided = Judged(stragglers_->Tick(*cluster_, Now()));
    if (!decided.empty()) Carry({}, std::move(decided), nullptr);
    if (is_up()) ArmTimer();
  });
}

void SimController::OnHello(const SessionPtr& session, NodeFacts facts, const Report& report) {
  if (!is_up() || session->controller != start_number_) return;
  SessionPtr& current = sessions_[facts.name];
  if (current == session) return;  // The hello was repeated.
  if (current != nullptr) {
    if (current->uid != session->uid) return CloseAtNode(session);  // The name is taken.
    current->open_at_controller = false;
    CloseAtNode(current);
  }
  current = session;
  SimNode* const receiver = world_.nodes[session->node].get();
  world_.network->SendDown(session, [receiver, session] { receiver->OnWelcome(session); });
  Apply(NodeConnected{std::move(facts), report.trainers, report.results});
  Grant(session, report.number);
}

void SimController::Grant(const SessionPtr& session, int64_t report) {
  if (world_.settings.lease == 0) return;
  SimNode* const receiver = world_.nodes[session->node].get();
  world_.network->SendDown(session,
                           [receiver, session, report] { receiver->OnLease(session, report); });
}

void SimController::OnReport(const SessionPtr& session, const Report& report) {
  if (!is_up()) return;
  const NodeName name = world_.nodes[session->node]->name();
  const auto current = sessions_.find(name);
  if (current == sessions_.end() || current->second != session) return;
  Apply(NodeReported{name, report.trainers, report.results});
  Grant(session, report.number);
}

void SimController::OnSessionEnd(const SessionPtr& session) {
  session->open_at_controller = false;
  if (!is_up()) return;
  const NodeName name = world_.nodes[session->node]->name();
  const auto current = sessions_.find(name);
  if (current == sessions_.end() || current->second != session) return;
  sessions_.erase(current);
  Apply(NodeDisconnected{name});
}

void SimController::CloseAtNode(const SessionPtr& session) {
  session->open_at_controller = false;
  SimNode* const receiver = world_.nodes[session->node].get();
  world_.network->SendDown(session, [receiver, session] { receiver->OnSessionEnd(session); });
}

}  // namespace paceline::sim
