#include "tests/sim/observer.h"

#include <algorithm>

#include "controller/core/job_checkpoints.h"
#include "tests/sim/digest.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {

void Observer::OnStep(const Cluster& cluster, const StoredJobs& puts) {
  for (const auto& [id, job] : puts) seen_[id].stored = DigestOf(*job);
  for (const auto& [id, job] : cluster.jobs()) CheckJob(job);
  CheckPlaces(cluster);
}

void Observer::CheckJob(const Job& job) {
  Trace& trace = world_.trace;
  const std::string& id = job.request.id.value();
  Seen& seen = seen_[job.request.id];
  if (job.generation.value() < seen.generation) {
    trace.Fail("the generation of ", id, " went back to ", job.generation.value());
  }
  if (job.plan.epoch.value() < seen.epoch) {
    trace.Fail("the plan epoch of ", id, " went back to ", job.plan.epoch.value());
  }
  if (DigestOf(job) != seen.stored) {
    trace.Fail(id, " has changed and was not stored with the event that changed it");
  }
  if (job.generation.value() > seen.generation) CheckStart(job);
  if (job.checkpoints.stop_after.has_value()) seen.to_stop = job.generation.value();
  if (job.state != seen.state) {
    trace.Add(id, " is ", static_cast<int>(job.state), " g", job.generation.value(), ": ",
              job.reason);
    if (job.ended_already()) CheckEndOf(job);
  }
  seen.generation = job.generation.value();
  seen.epoch = job.plan.epoch.value();
  seen.state = job.state;
}

void Observer::CheckPlaces(const Cluster& cluster) {
  std::set<std::pair<NodeName, int>> given;
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.holds_slots()) continue;
    for (const RankState& rank : job.ranks) {
      if (given.insert({rank.place.node, rank.place.number}).second) continue;
      world_.trace.Fail("place ", rank.place.number, " on ", rank.place.node.value(),
                        " is given twice, to ", id.value(), " the second time");
    }
  }
}

// A generation begins with the newest checkpoint that is complete on disk.
void Observer::CheckStart(const Job& job) {
  if (!SavesCheckpoints(job.request)) return;
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
    const int finished = finished_[{job.request.id, job.generation.value()}];
    if (finished < job.request.ranks) {
      trace.Fail(id, " has SUCCEEDED, and ", finished, " of its ranks did all steps");
    }
  }
  if (job.state == JobState::kCancelled && !job.asked_to_stop) {
    trace.Fail(id, " is CANCELLED, and nobody has asked for that");
  }
  if (job.state == JobState::kFailed) {
    const bool damage = job.reason.find("on disk any more") != std::string::npos;
    const bool allowed =
        damage || job.asked_to_stop || seen_[job.request.id].to_stop == job.generation.value() ||
        job.restarts >= job.request.max_restarts ||
        (job.failure.has_value() && job.failure->exit.failure == FailureKind::kRestore);
    if (!allowed) trace.Fail(id, " has FAILED with restarts left: ", job.reason);
  }
}

void Observer::OnRestored(const Cluster& cluster, const StoredJobs& stored) {
  for (const JobId& id : submitted_) {
    if (stored.count(id) == 0) world_.trace.Fail(id.value(), " was acknowledged, and is lost");
  }
  for (const auto& [id, job] : stored) {
    const auto restored = cluster.jobs().find(id);
    if (restored == cluster.jobs().end() || DigestOf(restored->second) != DigestOf(*job)) {
      world_.trace.Fail(id.value(), " is not what was stored after a restart");
    }
    Seen& seen = seen_[id];
    seen.stored = DigestOf(*job);
    seen.generation = job->generation.value();
    seen.epoch = job->plan.epoch.value();
    seen.state = job->state;
  }
  for (auto seen = seen_.begin(); seen != seen_.end();) {
    seen = stored.count(seen->first) == 0 ? seen_.erase(seen) : std::next(seen);
  }
}

void Observer::OnPlanSent(const NodeName& node, const NodeOrders& plan) {
  for (const TrainerOrder& order : plan.trainers) {
    const Member member{node, order.place, order.restore_from};
    const auto [known, added] = members_.emplace(order.id, member);
    if (!added && (known->second.node != node || known->second.place != order.place ||
                   known->second.restore_from != order.restore_from)) {
      world_.trace.Fail("generation ", order.id.generation.value(), " of ", order.id.job.value(),
                        " is used twice: its rank ", order.id.rank.value(), " was sent to ",
                        known->second.node.value(), " and now to ", node.value());
    }
    const JobFacts& facts = world_.jobs.at(order.id.job);
    for (const int64_t step : order.commit_steps) {
      const std::string path = absl::StrCat(facts.directory, "/", order.id.job.value(), "/",
                                            CheckpointName({step, order.id.generation.value()}));
      if (!world_.disk.HasShards(path, facts.ranks)) {
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

void Observer::OnExchange(const Trainer& first) {
  int64_t& newest = stepping_[first.id().job];
  const int64_t generation = first.id().generation.value();
  if (generation < newest) {
    world_.trace.Fail(first.id().job.value(), " g", generation, " makes a step after generation ",
                      newest, " has");
  }
  newest = std::max(newest, generation);
}

void Observer::OnFinished(const Trainer& trainer) {
  ++finished_[{trainer.id().job, trainer.id().generation.value()}];
  if (trainer.step() != trainer.facts().steps) {
    world_.trace.Fail("a rank of ", trainer.id().job.value(), " finished after step ",
                      trainer.step());
  }
}

void Observer::OnManifest(const Trainer& trainer, int64_t step, bool complete) {
  if (!complete) return;
  world_.trace.Add(trainer.id().job.value(), " g", trainer.id().generation.value(),
                   ": checkpoint after step ", step);
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
    if (known == cluster.nodes().end() || known->second.state != NodeState::kReady) {
      trace.Fail(node->name().value(), " is not READY in the end");
    }
    for (const TrainerPtr& trainer : node->Living()) {
      trace.Fail("trainer ", trainer->id().job.value(), " g", trainer->id().generation.value(),
                 " r", trainer->id().rank.value(), " is left on ", node->name().value());
    }
  }
}

}  // namespace paceline::sim
