#include "tests/sim/digest.h"

#include <string>

#include "controller/core/job_checkpoints.h"
#include "controller/core/saving.h"

namespace paceline::sim {
namespace {

// FNV-1a over words and bytes.
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
  for (const CheckpointKey& key : checkpoints.remnants) hash.Add(key);
  hash.Add(checkpoints.settlement.has_value() ? checkpoints.settlement->up_to.value() : 0);
  if (checkpoints.order.has_value()) {
    hash.Add(checkpoints.order->number);
    hash.Add(checkpoints.order->generation.value());
    hash.Add(static_cast<int64_t>(checkpoints.order->state));
  }
  hash.Add(checkpoints.stop_after.has_value() ? 1 : 0);
  for (const int64_t step : CommitSteps(job)) hash.Add(step);
}

}  // namespace

uint64_t DigestOf(const Job& job) {
  Hash hash;
  hash.Add(job.request.id.value());
  hash.Add(job.request.spec);
  hash.Add(job.number);
  hash.Add(static_cast<int64_t>(job.state));
  hash.Add(job.generation.value());
  hash.Add(job.plan.epoch.value());
  hash.Add(job.plan.strategy);
  hash.Add(job.start.directory);
  hash.Add(job.start.since.value());
  hash.Add(job.restored_from);
  hash.Add(job.restarts);
  hash.Add(job.asked_to_stop ? 1 : 0);
  hash.Add(job.stop.has_value() ? ToInt64Milliseconds(job.stop->grace) : -1);
  hash.Add(job.failure.has_value() ? static_cast<int64_t>(job.failure->exit.failure) : -1);
  for (const NodeName& node : job.nodes) hash.Add(node.value());
  for (const RankState& rank : job.ranks) {
    hash.Add(rank.place.node.value());
    hash.Add(rank.place.number);
    hash.Add(rank.report.id.generation.value());
    hash.Add(rank.report.id.rank.value());
    hash.Add(static_cast<int64_t>(rank.report.state));
    hash.Add(rank.report.pid);
    hash.Add(rank.report.store_address);
    hash.Add(rank.report.plan.active.value());
    hash.Add(rank.report.exit.has_value() ? static_cast<int64_t>(rank.report.exit->failure) : -1);
  }
  AddCheckpoints(job, hash);
  return hash.value();
}

}  // namespace paceline::sim
