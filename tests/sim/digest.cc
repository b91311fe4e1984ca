#include "tests/sim/digest.h"

#include <string>

#include "absl/base/casts.h"
#include "absl/time/time.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/saving.h"

namespace paceline::sim {
namespace {

// FNV-1a hash of words and bytes.
class Hash {
 public:
  void Add(int64_t value) { state_ = (state_ ^ static_cast<uint64_t>(value)) * 0x100000001b3; }
  void Add(const std::string& text) {
    for (const char c : text) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    Add(static_cast<int64_t>(text.size()));
  }
  void Add(const CheckpointKey& key) {
    Add(key.step);
    Add(key.generation);
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

void AddCheckpoints(const Job& job, Hash& hash) {
  const JobCheckpoints& checkpoints = job.checkpoints;
  for (const Checkpoint& record : checkpoints.records) {
    hash.Add(record.key);
    hash.Add(static_cast<int64_t>(record.state));
    hash.Add(record.pinned ? 1 : 0);
  }
  for (const Remnant& remnant : checkpoints.remnants) hash.Add(remnant.key);
  hash.Add(checkpoints.settlement.has_value() ? checkpoints.settlement->up_to.value() : 0);
  if (checkpoints.order.has_value()) {
    hash.Add(checkpoints.order->number);
    hash.Add(checkpoints.order->generation.value());
    hash.Add(static_cast<int64_t>(checkpoints.order->state));
  }
  hash.Add(checkpoints.stop_after.has_value() ? 1 : 0);
  for (const int64_t step : CommitSteps(job)) hash.Add(step);
}

// `reported_again`: leave out the trainer's own status, because its node reports that to a new
// controller again, and nothing follows from it alone.
void AddTrainer(const RankState& trainer, bool reported_again, Hash& hash) {
  hash.Add(trainer.slot.node.value());
  hash.Add(trainer.slot.number);
  hash.Add(trainer.seat);
  hash.Add(trainer.own_copy);
  hash.Add(trainer.ward_copy);
  for (const auto& [generation, seat] : trainer.seats) {
    hash.Add(generation.value());
    hash.Add(seat);
  }
  hash.Add(trainer.report.id.generation.value());
  hash.Add(trainer.report.id.rank.value());
  if (!reported_again) {
    hash.Add(static_cast<int64_t>(trainer.report.state));
    hash.Add(trainer.report.pid);
    hash.Add(trainer.report.store_address);
    hash.Add(trainer.report.plan.active.value());
    hash.Add(trainer.report.membership.generation.value());
  }
  hash.Add(trainer.report.exit.has_value() ? static_cast<int64_t>(trainer.report.exit->failure)
                                           : -1);
  hash.Add(trainer.stop.has_value() ? 1 : 0);
  hash.Add(trainer.lost.empty() ? 0 : 1);
  hash.Add(trainer.counted ? 1 : 0);
  hash.Add(trainer.hands_over ? 1 : 0);
}

void AddRecovery(const Job& job, Hash& hash) {
  const JobRecovery& recovery = job.recovery;
  hash.Add(recovery.started.value());
  hash.Add(recovery.next_spare);
  hash.Add(recovery.batch.samples);
  hash.Add(recovery.batch.passes);
  hash.Add(recovery.changes);
  hash.Add(recovery.hopeless ? 1 : 0);
  hash.Add(recovery.troubled.value());
  for (const int replica : recovery.mending) hash.Add(replica);
  hash.Add(recovery.copies.step);
  hash.Add(recovery.copies.generation.value());
  hash.Add(recovery.copies.settled_step);
  hash.Add(recovery.copies.restoring ? 1 : 0);
  hash.Add(static_cast<int64_t>(recovery.copies.trouble));
  for (const auto& [node, why] : recovery.vacate) hash.Add(node.value());
  for (const MembershipChange& change : recovery.history) {
    hash.Add(change.generation.value());
    hash.Add(change.planned ? 1 : 0);
    hash.Add(change.averages_first ? 1 : 0);
    hash.Add(change.ended == absl::InfinitePast() ? 0 : 1);
    hash.Add(change.restored_step);
    hash.Add(change.steps_lost);
  }
  for (const MemberFailure& failure : recovery.failures) {
    hash.Add(failure.seat);
    hash.Add(failure.step);
    hash.Add(failure.own_error ? 1 : 0);
  }
  for (const Slot& home : job.homes) hash.Add(home.node.value());
}

}  // namespace

uint64_t DigestOf(const Job& job) {
  Hash hash;
  hash.Add(job.request.id.value());
  hash.Add(job.request.spec);
  hash.Add(job.number);
  hash.Add(static_cast<int64_t>(job.state));
  hash.Add(job.generation.value());
  hash.Add(job.plan.version.value());
  hash.Add(job.plan.strategy);
  hash.Add(job.start.directory);
  hash.Add(job.start.since.value());
  hash.Add(job.restored_from);
  hash.Add(job.restarts);
  hash.Add(job.asked_to_stop ? 1 : 0);
  hash.Add(job.stop.has_value() ? ToInt64Milliseconds(job.stop->grace) : -1);
  hash.Add(job.failure.has_value() ? static_cast<int64_t>(job.failure->exit.failure) : -1);
  for (const NodeName& node : job.nodes) hash.Add(node.value());
  hash.Add(job.requeue ? 1 : 0);
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    hash.Add(static_cast<int64_t>(part->size()));
    for (const RankState& trainer : *part) {
      const bool starts = job.state == JobState::kStarting && part == &job.ranks;
      AddTrainer(trainer, starts && trainer.report.state != TrainerState::kExited, hash);
    }
  }
  AddRecovery(job, hash);
  AddCheckpoints(job, hash);
  return hash.value();
}

uint64_t DigestOf(const Node& node) {
  Hash hash;
  hash.Add(node.facts.uid);
  hash.Add(node.facts.slots);
  for (const Hold& hold : node.holds) {
    hash.Add(hold.drain.has_value() ? static_cast<int64_t>(*hold.drain) : 0);
    hash.Add(hold.owner);
    hash.Add(hold.until == absl::InfiniteFuture() ? 0 : absl::ToUnixSeconds(hold.until));
  }
  hash.Add(node.contact == Contact::kLost ? 1 : 0);
  hash.Add(node.checks.asked);
  return hash.value();
}

uint64_t DigestOf(const Automation& automation) {
  Hash hash;
  hash.Add(automation.paused ? 1 : 0);
  hash.Add(automation.owner);
  return hash.value();
}

uint64_t DigestOf(const RemedyDecision& decision) {
  Hash hash;
  hash.Add(decision.id);
  hash.Add(static_cast<int64_t>(decision.kind));
  hash.Add(static_cast<int64_t>(decision.state));
  hash.Add(absl::ToUnixMicros(decision.made));
  hash.Add(decision.undoes);
  hash.Add(decision.automatic ? 1 : 0);
  hash.Add(decision.by);
  hash.Add(decision.generation.value());
  hash.Add(decision.plan_version.value());
  hash.Add(decision.step);
  hash.Add(decision.rank);
  hash.Add(decision.node.value());
  hash.Add(DescribeLadder(decision.ladder));
  hash.Add(DescribeLadder(decision.former));
  for (const double number :
       {decision.verdict.slowdown, decision.verdict.lost_share, decision.before.seconds,
        decision.before.error, decision.lost_s, decision.cost_s, decision.predicted_s,
        decision.paid_s, IsChecked(decision) ? 0 : decision.measured_s}) {
    hash.Add(absl::bit_cast<int64_t>(number));
  }
  hash.Add(decision.reason);
  hash.Add(decision.done_generation.value());
  hash.Add(decision.done_plan_version.value());
  hash.Add(decision.outcome);
  hash.Add(decision.ended == absl::InfinitePast() ? 0 : absl::ToUnixMicros(decision.ended));
  return hash.value();
}

}  // namespace paceline::sim
