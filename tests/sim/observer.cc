#include "tests/sim/observer.h"

#include <algorithm>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/membership.h"
#include "tests/sim/digest.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {
namespace {

// Time that a daemon needs to end trainers after its host was frozen.
constexpr Micros kFenceTime = kSecond;

// Failures that are of no rank: members whose rendezvous had to begin again.
int64_t CountTroubles(const Job& job) {
  const std::vector<MemberFailure>& failures = job.recovery.failures;
  return std::count_if(failures.begin(), failures.end(),
                       [](const MemberFailure& failure) { return failure.seat < 0; });
}

}  // namespace

void Observer::OnStep(const Cluster& cluster, const Stored& puts,
                      const std::optional<Automation>& automation) {
  world_.coverage.OnStep(cluster);
  for (const auto& [id, job] : puts.jobs) seen_[id].stored = DigestOf(*job);
  for (const auto& [id, job] : cluster.jobs()) CheckJob(job);
  CheckSlots(cluster);
  CheckNodes(cluster, puts);
  if (automation.has_value()) stored_automation_ = DigestOf(*automation);
  if (stored_automation_ != DigestOf(cluster.automation())) {
    world_.trace.Fail("what is known of the automation has changed and was not stored");
  }
  CheckAutomation(cluster);
}

void Observer::CheckNodes(const Cluster& cluster, const Stored& puts) {
  for (const auto& [name, node] : puts.nodes) stored_nodes_[name] = DigestOf(*node);
  for (const auto& [name, node] : cluster.nodes()) {
    if (DigestOf(node) != stored_nodes_[name]) {
      world_.trace.Fail("node ", name.value(),
                        " has changed and was not stored with the event that changed it");
    }
    if (node.state == NodeState::kDrained && !cluster.PlanFor(name).empty()) {
      world_.trace.Fail("node ", name.value(), " is DRAINED, and a trainer is planned on it");
    }
  }
}

void Observer::CheckAutomation(const Cluster& cluster) {
  for (const auto& [name, node] : cluster.nodes()) {
    const bool drains = std::any_of(node.holds.begin(), node.holds.end(), [](const Hold& hold) {
      return hold.drain.has_value() && hold.owner == kAutomationOwner;
    });
    if (!drains) {
      automatic_.erase(name);
      continue;
    }
    if (!automatic_.insert(name).second) continue;
    const auto out =
        std::count_if(cluster.nodes().begin(), cluster.nodes().end(), [&](const auto& entry) {
          return automatic_.count(entry.first) > 0 || !IsReachable(entry.second.state);
        });
    const auto limit =
        cluster.options().max_out_share * static_cast<double>(cluster.nodes().size());
    if (static_cast<double>(out) > limit) {
      world_.trace.Fail("the automation drains ", name.value(), ", and ", out, " of ",
                        cluster.nodes().size(), " nodes are out");
    }
    if (cluster.automation().paused) {
      world_.trace.Fail("the automation drains ", name.value(), " while it is paused");
    }
    for (const auto& [id, job] : cluster.jobs()) {
      const auto emptied =
          std::count_if(automatic_.begin(), automatic_.end(), [&, &j = job](const NodeName& n) {
            return j.holds_slots() && HasTrainersOn(j, n) &&
                   cluster.nodes().at(n).state == NodeState::kDraining;
          });
      if (emptied > 1) {
        world_.trace.Fail("the automation empties two nodes of ", id.value(), " at a time");
      }
    }
  }
}

void Observer::CheckJob(const Job& job) {
  Trace& trace = world_.trace;
  const std::string& id = job.request.id.value();
  Seen& seen = seen_[job.request.id];
  if (job.generation.value() < seen.generation) {
    trace.Fail("the generation of ", id, " went back to ", job.generation.value());
  }
  if (job.plan.version.value() < seen.version) {
    trace.Fail("the plan version of ", id, " went back to ", job.plan.version.value());
  }
  if (DigestOf(job) != seen.stored) {
    trace.Fail(id, " has changed and was not stored with the event that changed it");
  }
  if (job.generation.value() > seen.generation) {
    CheckStart(job);
    if (seen.hands_over) seen.unheard = seen.generation;
  }
  if (job.recovery.started == job.generation) {
    starts_[job.request.id].insert(job.generation.value());
  }
  if (seen.state == JobState::kStopping && job.state != seen.state && HasLiving(job.request.id)) {
    seen.unconfirmed = seen.generation;
  }
  if (job.checkpoints.stop_after.has_value()) seen.to_stop = job.generation.value();
  if (job.state != seen.state || job.generation.value() != seen.generation) {
    trace.Add(id, " is ", static_cast<int>(job.state), " g", job.generation.value(), ": ",
              job.reason);
    if (job.ended_already() && job.state != seen.state) CheckEndOf(job);
  }
  const int64_t troubles = CountTroubles(job);
  const int64_t troubled = job.recovery.troubled.value();
  if (troubles > seen.troubles && troubled == seen.troubled) {
    trace.Fail("what ended generation ", troubled, " of ", id, " is counted twice");
  }
  seen.troubles = troubles;
  seen.troubled = troubled;
  seen.hands_over = std::any_of(job.ranks.begin(), job.ranks.end(),
                                [](const RankState& member) { return member.hands_over; });
  seen.generation = job.generation.value();
  seen.version = job.plan.version.value();
  seen.state = job.state;
}

void Observer::CheckSlots(const Cluster& cluster) {
  std::set<std::pair<NodeName, int>> given;
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.holds_slots()) continue;
    for (const RankState* trainer : TrainersOf(job)) {
      if (Recovers(job) && HasEnded(*trainer)) continue;
      const Slot& slot = trainer->slot;
      if (given.insert({slot.node, slot.number}).second) continue;
      world_.trace.Fail("slot ", slot.number, " on ", slot.node.value(), " is given twice, to ",
                        id.value(), " the second time");
    }
  }
}

// Checks that a start uses the newest checkpoint that is complete on disk.
void Observer::CheckStart(const Job& job) {
  if (job.recovery.started != job.generation || !SavesCheckpoints(job.request)) return;
  CheckpointKey newest;
  std::string expected = job.start.directory;
  for (const std::string& path : world_.disk.Complete(JobDirectory(job.request))) {
    const CheckpointKey key = world_.disk.Find(path)->key;
    const Checkpoint* record = FindCheckpoint(job, key);
    if (record != nullptr && record->state != CheckpointState::kComplete) continue;
    if (key.generation < job.start.since.value()) continue;
    if (std::make_pair(key.generation, key.step) <=
        std::make_pair(newest.generation, newest.step)) {
      continue;
    }
    newest = key;
    expected = path;
  }
  if (job.restored_from != expected) {
    world_.trace.Fail(job.request.id.value(), " g", job.generation.value(), " starts from \"",
                      job.restored_from, "\", and the newest complete checkpoint is \"", expected,
                      "\"");
  }
}

void Observer::CheckEndOf(const Job& job) {
  Trace& trace = world_.trace;
  const std::string& id = job.request.id.value();
  if (job.state == JobState::kSucceeded) {
    for (const RankState& member : job.ranks) {
      if (finished_.count(member.report.id) > 0) continue;
      trace.Fail(id, " has SUCCEEDED, and its rank ", member.report.id.rank.value(),
                 " has not done all steps");
    }
  }
  if (job.state == JobState::kCancelled && !job.asked_to_stop) {
    trace.Fail(id, " is CANCELLED, and nobody has asked for that");
  }
  if (job.state == JobState::kFailed) {
    const bool damage = job.reason.find("on disk any more") != std::string::npos;
    const bool hopeless =
        job.recovery.hopeless || job.reason.find("crash loop") != std::string::npos ||
        (job.failure.has_value() && job.failure->exit.failure == FailureKind::kRestore);
    const bool allowed = damage || hopeless || job.asked_to_stop ||
                         seen_[job.request.id].to_stop == job.generation.value() ||
                         job.restarts >= job.request.max_restarts;
    if (!allowed) trace.Fail(id, " has FAILED with restarts left: ", job.reason);
  }
}

void Observer::OnRestored(const Cluster& cluster, const Stored& stored) {
  world_.coverage.OnRestored(cluster);
  for (const JobId& id : submitted_) {
    if (stored.jobs.count(id) == 0) world_.trace.Fail(id.value(), " was acknowledged, and is lost");
  }
  for (const auto& [id, job] : stored.jobs) {
    const auto restored = cluster.jobs().find(id);
    if (restored == cluster.jobs().end() || DigestOf(restored->second) != DigestOf(*job)) {
      world_.trace.Fail(id.value(), " is not what was stored after a restart");
    }
    Seen& seen = seen_[id];
    seen.stored = DigestOf(*job);
    seen.generation = job->generation.value();
    seen.version = job->plan.version.value();
    seen.state = job->state;
    seen.troubles = CountTroubles(*job);
    seen.troubled = job->recovery.troubled.value();
  }
  for (auto seen = seen_.begin(); seen != seen_.end();) {
    seen = stored.jobs.count(seen->first) == 0 ? seen_.erase(seen) : std::next(seen);
  }
  stored_nodes_.clear();
  automatic_.clear();
  for (const auto& [name, node] : stored.nodes) {
    const auto restored = cluster.nodes().find(name);
    if (restored == cluster.nodes().end() || DigestOf(restored->second) != DigestOf(*node)) {
      world_.trace.Fail("node ", name.value(), " is not what was stored after a restart");
    }
    stored_nodes_[name] = DigestOf(*node);
    for (const Hold& hold : node->holds) {
      if (hold.drain.has_value() && hold.owner == kAutomationOwner) automatic_.insert(name);
    }
  }
  stored_automation_ = DigestOf(stored.automation);
}

void Observer::OnPlanned(const Cluster& cluster, const NodeOrders& plan) {
  for (const TrainerOrder& order : plan.trainers) {
    const Job& job = cluster.jobs().at(order.id.job);
    const bool hands_over = order.rank < 0 && order.hand_over >= 0 && !job.stop.has_value();
    for (const RankState* trainer : TrainersOf(job)) {
      if (!(trainer->report.id == order.id)) continue;
      if (order.stop.has_value() && hands_over && !HasEnded(*trainer) && trainer->lost.empty()) {
        world_.trace.Fail("a trainer of ", order.id.job.value(), " on ", trainer->slot.node.value(),
                          " is to end, and nobody else has its state yet");
      }
      if (order.stop.has_value() || !HasEnded(*trainer)) continue;
      world_.trace.Fail("a node that has lost its disk would start a trainer of ",
                        order.id.job.value(), " again that has ended: rank ", order.id.rank.value(),
                        " of generation ", order.id.generation.value());
    }
  }
}

void Observer::OnPlanSent(const NodeName& node, const NodeOrders& plan) {
  for (const TrainerOrder& order : plan.trainers) {
    const auto [known, added] = members_.emplace(order.id, Member{node, order.slot});
    if (!added && (known->second.node != node || known->second.slot != order.slot)) {
      world_.trace.Fail("generation ", order.id.generation.value(), " of ", order.id.job.value(),
                        " is used twice: its rank ", order.id.rank.value(), " was sent to ",
                        known->second.node.value(), " and now to ", node.value());
    }
    const auto [role, first] = roles_.emplace(std::make_pair(order.id, order.generation),
                                              Role{order.rank, order.world_size});
    if (!first &&
        (role->second.rank != order.rank || role->second.world_size != order.world_size)) {
      world_.trace.Fail("generation ", order.generation, " of ", order.id.job.value(),
                        " means two memberships: a trainer on ", node.value(), " was sent rank ",
                        role->second.rank, " of ", role->second.world_size, " and now rank ",
                        order.rank, " of ", order.world_size);
    }
    const JobFacts& facts = world_.jobs.at(order.id.job);
    if (order.shards != facts.shards) {
      world_.trace.Fail(order.id.job.value(), " has ", facts.shards, " shards, and a trainer on ",
                        node.value(), " is told ", order.shards);
    }
    for (const int64_t step : order.commit_steps) {
      const std::string path = absl::StrCat(facts.directory, "/", order.id.job.value(), "/",
                                            CheckpointName({step, order.generation}));
      if (!world_.disk.HasShards(path, order.world_size)) {
        world_.trace.Fail(path, " is to be committed, and a shard is missing");
      }
    }
  }
}

void Observer::OnStart(const SimNode& node, const TrainerId& id) {
  if (started_[node.name()].insert(id).second) return;
  world_.trace.Fail("trainer ", id.job.value(), " g", id.generation.value(), " r", id.rank.value(),
                    " is started a second time on ", node.name().value());
}

void Observer::OnDiskLost(const NodeName& node) { started_.erase(node); }

void Observer::OnBadRestore(const Trainer& trainer, bool damaged) {
  if (damaged) return;
  const Trainer& t = trainer;
  world_.trace.Add("no checkpoint at ", t.order().restore_from);
  if (!world_.controller->is_up()) return;
  const auto job = world_.controller->cluster().jobs().find(t.id().job);
  if (job == world_.controller->cluster().jobs().end() ||
      job->second.generation != t.id().generation || job->second.stop.has_value() ||
      !job->second.holds_slots()) {
    return;
  }
  world_.trace.Fail(t.id().job.value(), " g", t.id().generation.value(), " starts from ",
                    t.order().restore_from, ", which is not there");
}

void Observer::OnRendezvousDone(int64_t generation, const std::vector<const Trainer*>& trainers,
                                int64_t position) {
  const JobId& id = trainers.front()->id().job;
  Work& work = work_[id];
  world_.trace.Add(id.value(), " had its rendezvous as generation ", generation, " at step ",
                   position);
  if (generation < work.generation && IsLeftOver(trainers)) return;
  // Trainers of a new start have its generation in their ids.
  const bool starts = std::none_of(trainers.begin(), trainers.end(),
                                   [](const Trainer* trainer) { return trainer->has_trained(); });
  const int64_t started = trainers.front()->id().generation.value();
  if (starts && started == generation && started > work.started && Restarted(id, started)) {
    work.started = started;
    work.done = position;
  }
  // Who had handed its state over has taken its seat back from one that nobody had heard of since.
  const auto seen = seen_.find(id);
  if (seen != seen_.end() && work.generation == seen->second.unheard) {
    work.done = std::min(work.done, position);
  }
  if (position < work.done) {
    world_.trace.Fail(id.value(), " goes on as generation ", generation, " at step ", position,
                      ", and all ranks had done ", work.done);
  }
}

bool Observer::Restarted(const JobId& id, int64_t generation) const {
  const auto starts = starts_.find(id);
  return starts != starts_.end() && starts->second.count(generation) > 0;
}

// Whether trainers of an earlier generation may still run: the job has no lease on them, or was
// stopped and did not wait for them (kStopConfirmation); or their daemon is dead, or their host was
// frozen until a moment ago.
bool Observer::IsLeftOver(const std::vector<const Trainer*>& trainers) const {
  if (world_.settings.lease == 0 || !trainers.front()->facts().recovers) return true;
  if (!world_.controller->is_up()) return true;
  const auto seen = seen_.find(trainers.front()->id().job);
  if (seen != seen_.end() && trainers.front()->present() <= seen->second.unconfirmed) return true;
  const auto& known = world_.controller->cluster().nodes();
  return std::any_of(trainers.begin(), trainers.end(), [&](const Trainer* trainer) {
    const SimNode& node = trainer->node();
    const auto found = known.find(node.name());
    return found == known.end() || found->second.contact != Contact::kLost ||
           !node.daemon_is_up() || node.thawed() + kFenceTime > world_.time.now();
  });
}

bool Observer::HasLiving(const JobId& id) const {
  const auto& known = world_.controller->cluster().nodes();
  return std::any_of(world_.nodes.begin(), world_.nodes.end(), [&](const auto& node) {
    const auto found = known.find(node->name());
    if (found != known.end() && found->second.contact == Contact::kLost) return false;
    const std::vector<TrainerPtr> living = node->Living();
    return std::any_of(living.begin(), living.end(),
                       [&id](const TrainerPtr& trainer) { return trainer->id().job == id; });
  });
}

void Observer::OnExchange(int64_t generation, const std::vector<const Trainer*>& trainers) {
  const Trainer& first = *trainers.front();
  Work& work = work_[first.id().job];
  if (generation < work.generation && !IsLeftOver(trainers)) {
    world_.trace.Fail(first.id().job.value(), ": generation ", generation,
                      " makes a step after generation ", work.generation, " has");
  }
  work.generation = std::max(work.generation, generation);
  // All members have done the earlier steps.
  if (generation >= work.started) work.done = std::max(work.done, first.step());
  if (!world_.controller->is_up()) return;
  const auto& nodes = world_.controller->cluster().nodes();
  for (const Trainer* trainer : trainers) {
    const auto node = nodes.find(trainer->node().name());
    if (node == nodes.end() || node->second.state != NodeState::kDrained) continue;
    world_.trace.Fail("node ", node->first.value(), " is DRAINED, and ", trainer->name(),
                      " trains on it");
  }
}

void Observer::OnFinished(const Trainer& trainer) {
  finished_.insert(trainer.id());
  if (trainer.step() != trainer.facts().steps) {
    world_.trace.Fail("a rank of ", trainer.id().job.value(), " finished after step ",
                      trainer.step());
  }
}

bool Observer::IsOver(const Cluster& cluster) const {
  return std::all_of(cluster.jobs().begin(), cluster.jobs().end(), [](const auto& entry) {
    return entry.second.ended_already() && !entry.second.checkpoints.settlement.has_value();
  });
}

void Observer::CheckEnd() {
  Trace& trace = world_.trace;
  if (!world_.controller->is_up()) return trace.Fail("the controller is down in the end");
  const Cluster& cluster = world_.controller->cluster();
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.ended_already()) {
      for (const auto& [name, node] : cluster.nodes()) {
        trace.Add("  ", name.value(), ": state ", static_cast<int>(node.state), ", ",
                  node.facts.slots, " slots, ", cluster.SlotsUsed(name, Device::kCpu).size(),
                  " used");
      }
      for (const RankState* trainer : TrainersOf(job)) {
        trace.Add("  ", trainer->slot.node.value(), ": g", trainer->report.id.generation.value(),
                  " r", trainer->report.id.rank.value(), " state ",
                  static_cast<int>(trainer->report.state), " trained in ",
                  trainer->report.membership.generation.value());
      }
      trace.Fail(id.value(), " has not ended: state ", static_cast<int>(job.state), ", ",
                 job.reason);
    } else if (!TasksOf(job).empty()) {
      trace.Fail("the directory of ", id.value(), " is not looked after in the end");
    } else if (cancelled_.count(id) > 0 && job.state == JobState::kQueued) {
      trace.Fail(id.value(), " was cancelled, and has not ended");
    }
  }
  for (const auto& node : world_.nodes) {
    const auto known = cluster.nodes().find(node->name());
    if (known == cluster.nodes().end() || !IsReachable(known->second.state)) {
      trace.Fail(node->name().value(), " does not answer in the end");
    } else if (EffectiveDrain(known->second.holds) != nullptr &&
               known->second.state != NodeState::kDrained) {
      trace.Fail(node->name().value(),
                 " is drained, and not DRAINED in the end: ", known->second.reason);
    }
    for (const TrainerPtr& trainer : node->Living()) {
      trace.Fail("trainer ", trainer->id().job.value(), " g", trainer->id().generation.value(),
                 " r", trainer->id().rank.value(), " is left on ", node->name().value());
    }
  }
}

}  // namespace paceline::sim
