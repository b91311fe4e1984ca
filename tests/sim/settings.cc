#include "tests/sim/settings.h"

namespace paceline::sim {
namespace {

// Which histories have shards follows from a stream of its own, so the others stay what they are.
// Any number would do; with this one, all seeds of regressions.txt and all that catch planted bugs
// without shards (docs/simulator.md) are such others.
constexpr uint64_t kShardStream = 7955;

// In these histories jobs are elastic, whatever was drawn before. Those named above are not among
// them.
bool HasElasticJobs(uint64_t seed) { return seed % 12 == 10; }

Micros DrawRate(Random& random, Micros shortest, Micros longest) {
  const bool left_out = random.Chance(0.5);
  const Micros rate = random.Between(shortest, longest);
  return left_out ? kNever : rate;
}

double DrawProbability(Random& random, double highest) {
  const bool left_out = random.Chance(0.5);
  const double probability = random.Unit() * highest;
  return left_out ? 0 : probability;
}

// Nodes lose contact for longer than their lease, and little else happens.
void Isolate(Random& random, Settings& s) {
  s.lease = random.Between(10, 14) * kSecond;
  s.quiet = 70 * kSecond;
  s.end = s.quiet + 1000 * kSecond;
  s.recovers = 1;
  s.control_cut = random.Between(4, 10) * kSecond;
  s.daemon_crash = s.host_crash = s.trainer_crash = s.trainer_freeze = kNever;
  s.trainer_hang = s.host_freeze = s.data_cut = s.sigterm = kNever;
  s.between_holds = s.between_automatic = kNever;
}

// Jobs live long, nodes are drained by swaps all the time, and mostly trainers die: most changes of
// membership are planned, and many are interrupted.
void Rearrange(Random& random, Settings& s) {
  s.nodes = static_cast<int>(random.Between(3, 5));
  s.jobs = static_cast<int>(random.Between(1, 2));
  s.quiet = 90 * kSecond;
  s.end = s.quiet + 3000 * kSecond;
  s.recovers = 1;
  s.steps = 6;
  s.swaps = 0.8;
  s.interrupts = 0.5;
  s.between_holds = random.Between(8, 20) * kSecond;
  s.trainer_crash = random.Between(10, 60) * kSecond;
  s.controller_crash = kNever;
  s.daemon_crash = s.host_crash = s.host_freeze = s.trainer_hang = s.sigterm = kNever;
  s.between_automatic = kNever;
}

// Jobs live long and lose several ranks at once, of which some are replaced and some cannot be, as
// nodes come and go: jobs shrink while newcomers wait for their state.
void Dwindle(Random& random, Settings& s) {
  Rearrange(random, s);
  s.swaps = 0.2;
  s.interrupted_losses = 0.8;
  s.host_crash = random.Between(20, 60) * kSecond;
  s.end += random.Between(0, kSecond);  // Jobs follow from it, as below.
}

// Ranks of many nodes do many short steps and report them; nodes become slow, and little else
// happens.
void Straggle(Random& random, Settings& s) {
  s.stragglers = true;
  s.straggler_seed = random.Next();
  s.nodes = static_cast<int>(random.Between(6, 10));
  s.jobs = random.Chance(0.8) ? 1 : 2;
  s.max_slots = 2;
  s.lease = random.Chance(0.6) ? random.Between(12, 20) * kSecond : 0;
  s.encoded = random.Chance(0.1);
  s.quiet = random.Between(40, 80) * kSecond;
  s.end = s.quiet + 3000 * kSecond;
  s.steps = 1;
  s.interrupts = random.Chance(0.3) ? 0.5 : 0;
  s.swaps = 0;
  s.recovers = 0.9;
  s.controller_crash = DrawRate(random, 15 * kSecond, 90 * kSecond);
  s.daemon_crash = DrawRate(random, 20 * kSecond, 90 * kSecond);
  s.host_crash = DrawRate(random, 30 * kSecond, 120 * kSecond);
  s.trainer_crash = DrawRate(random, 20 * kSecond, 90 * kSecond);
  s.session_break = DrawRate(random, 10 * kSecond, 60 * kSecond);
  s.control_cut = DrawRate(random, 20 * kSecond, 60 * kSecond);
  s.wall_jump = DrawRate(random, 10 * kSecond, 60 * kSecond);
  s.trainer_freeze = s.host_freeze = s.trainer_hang = s.job_cut = s.data_cut = s.sigterm = kNever;
  s.between_requests = random.Between(15, 60) * kSecond;
  s.between_holds = DrawRate(random, 15 * kSecond, 60 * kSecond);
  s.between_automatic = kNever;
  s.slowdown = random.Between(4, 20) * kSecond;
  s.half_slow = DrawRate(random, 15 * kSecond, 60 * kSecond);
  s.nonsense = DrawRate(random, 10 * kSecond, 40 * kSecond);
  s.between_advices = DrawRate(random, 2 * kSecond, 10 * kSecond);
  s.between_pauses = DrawRate(random, 4 * kSecond, 20 * kSecond);
  s.steps_lost = DrawProbability(random, 0.1);
  s.steps_late = DrawProbability(random, 0.1);
  s.steps_repeated = DrawProbability(random, 0.1);
  s.plan_fails = DrawProbability(random, 0.3);
  if (!random.Chance(0.25)) return;
  // Little disturbs the straggler loop, so it has no excuse for doing nothing.
  s.controller_crash = s.daemon_crash = s.host_crash = s.session_break = s.control_cut = kNever;
  s.nonsense = s.between_holds = kNever;
  s.steps_lost = s.steps_late = 0;
}

// The same for a job whose model is sharded: ranks move with others of their replicas, so they need
// room and time. Often a member dies while states are on their way.
void MoveReplicas(Random& random, Settings& s) {
  Rearrange(random, s);
  s.nodes = static_cast<int>(random.Between(7, 10));
  s.jobs = 1;
  s.shards = static_cast<int>(random.Between(2, 3));
  s.quiet = 150 * kSecond;
  s.steps = 10;
  s.trainer_crash = random.Between(40, 120) * kSecond;
  s.between_holds = random.Between(4, 10) * kSecond;
  s.transfer_deaths = 0.5;
  s.transfer_seed = random.Next();
  // Jobs follow from `end`: without this, all such histories would have the same one.
  s.end = s.quiet + 3000 * kSecond + random.Between(0, kSecond);
}

// Models of which several ranks hold one copy together, on enough nodes for some replicas.
void Shard(Random& random, Settings& s) {
  s.shards = static_cast<int>(random.Between(2, 4));
  s.nodes = static_cast<int>(random.Between(3, 6));
  s.jobs = static_cast<int>(random.Between(1, 2));
  if (random.Chance(0.15)) MoveReplicas(random, s);
}

// Jobs live long and have more ranks than they want while others do not need the slots: these come,
// end, or are asked to. Some trainers die, and nodes are drained.
void Stretch(uint64_t seed, Settings& s) {
  Random random(seed);
  Rearrange(random, s);
  s.elastic = true;
  s.nodes = static_cast<int>(random.Between(3, 6));
  s.jobs = static_cast<int>(random.Between(2, 4));
  s.steps = 12;
  s.quiet = 150 * kSecond;
  // Jobs follow from `end`: without this, all such histories would have the same ones.
  s.end = s.quiet + 4000 * kSecond + random.Between(0, kSecond);
  s.swaps = 0.4;
  s.interrupts = random.Chance(0.5) ? 0.4 : 0;
  s.interrupted_losses = s.transfer_deaths = 0;
  s.trainer_crash = DrawRate(random, 20 * kSecond, 120 * kSecond);
  s.between_holds = DrawRate(random, 20 * kSecond, 60 * kSecond);
  s.between_requests = random.Between(10, 40) * kSecond;
  s.trainer_freeze = s.job_cut = kNever;
}

}  // namespace

Settings DrawSettings(Random& random, uint64_t seed) {
  Settings s;
  s.nodes = static_cast<int>(random.Between(1, 5));
  s.jobs = static_cast<int>(random.Between(1, 3));
  s.lease = random.Chance(0.6) ? random.Between(12, 20) * kSecond : 0;
  s.encoded = random.Chance(0.1);
  s.quiet = random.Between(15, 60) * kSecond;
  s.end = s.quiet + 1000 * kSecond;

  s.controller_crash = DrawRate(random, 3 * kSecond, 30 * kSecond);
  s.daemon_crash = DrawRate(random, 3 * kSecond, 30 * kSecond);
  s.host_crash = DrawRate(random, 8 * kSecond, 60 * kSecond);
  s.trainer_crash = DrawRate(random, 4 * kSecond, 40 * kSecond);
  s.trainer_freeze = DrawRate(random, 6 * kSecond, 60 * kSecond);
  s.host_freeze = DrawRate(random, 8 * kSecond, 60 * kSecond);
  s.session_break = DrawRate(random, 2 * kSecond, 20 * kSecond);
  s.control_cut = DrawRate(random, 5 * kSecond, 40 * kSecond);
  s.data_cut = DrawRate(random, 5 * kSecond, 60 * kSecond);
  s.wall_jump = DrawRate(random, 5 * kSecond, 60 * kSecond);
  s.trainer_hang = DrawRate(random, 8 * kSecond, 60 * kSecond);
  s.sigterm = DrawRate(random, 20 * kSecond, 120 * kSecond);

  s.host_loses_disk = DrawProbability(random, 0.5);
  s.start_fails = DrawProbability(random, 0.1);
  s.store_fails = DrawProbability(random, 0.01);
  s.crash_at_commit = DrawProbability(random, 0.02);
  s.save_fails = DrawProbability(random, 0.2);
  s.task_fails = DrawProbability(random, 0.3);
  s.repeated_message = DrawProbability(random, 0.1);
  s.checkpoint_damage = DrawProbability(random, 0.05);

  s.control_delay = random.Between(1, 100) * kMilli;
  s.store_delay = random.Between(1, 100) * kMilli;
  s.disk_delay = random.Between(10, 2000) * kMilli;
  s.recovers = random.Chance(0.3) ? 0 : 0.8;
  s.between_holds = DrawRate(random, 3 * kSecond, 30 * kSecond);
  s.between_automatic = DrawRate(random, 5 * kSecond, 30 * kSecond);
  s.between_requests = random.Between(2, 15) * kSecond;
  const double kind = random.Unit();
  if (kind < 0.1) {
    Isolate(random, s);
  } else if (kind < 0.3) {
    Rearrange(random, s);
  }
  Random rare = random;  // A copy: the other histories stay what they are.
  if (rare.Chance(0.15)) s.job_cut = rare.Between(8, 30) * kSecond;
  if (rare.Chance(0.12)) Straggle(rare, s);
  Random others = random;  // As above.
  Random large = others.Fork();
  Random sharded(others.Next() + kShardStream);
  if (large.Chance(0.2)) s.look_per_rank = large.Between(2, 50) * kMilli;
  if (!s.stragglers && sharded.Chance(0.37)) {  // A third of all.
    Shard(sharded, s);
  } else if (!s.stragglers && sharded.Chance(0.1)) {
    Dwindle(sharded, s);
  }
  if (HasElasticJobs(seed) && !s.stragglers) Stretch(seed, s);
  return s;
}

}  // namespace paceline::sim
