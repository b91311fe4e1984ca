// What ranks do in their compute threads, and what is checked for all.
#include "slipstream/testing/simulated_ranks.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace paceline {

SimulatedRanks::SimulatedRanks(const Options& options) : options_(options), random_(options.seed) {
  RoundState state;
  state.total = RankSteps(options.ranks, options.first_step);
  state.target_steps = options.target_steps;
  state.plan.version = 1;
  state.plan.mode = options.mode;
  state.plan.window = options.window;
  state.plan.averages_state = options.averages_state;
  state.periods = options.periods;
  latest_ = state;
  const SimulatedVector zeros(kSimulatedSize, 0);
  std::uniform_real_distribution<double> error(-options.clock_error, options.clock_error);
  for (int rank = 0; rank < options.ranks; ++rank) {
    ranks_.push_back(std::make_unique<SimulatedRank>(
        SlipstreamRank::Options{rank, options.stops_at_bad_update, /*startup_steps=*/0,
                                options.lossy_updates},
        state, zeros, zeros, start_));
    EnterGroup(*ranks_.back());
    ranks_.back()->clock_rate = 1 + error(random_);
    ranks_.back()->exact = options.update == nullptr;
    After(absl::ZeroDuration(), [this, me = ranks_.back().get()] { Pump(*me); });
  }
}

void SimulatedRanks::After(absl::Duration delay, std::function<void()> what) {
  queue_.push({now_ + delay, ++events_, std::move(what)});
}

void SimulatedRanks::Later(absl::Duration delay, SimulatedRank& rank, bool of_comm,
                           std::function<void()> what) {
  After(delay, [&rank, of_comm, incarnation = rank.incarnation, what = std::move(what)] {
    if (!rank.dead && (!of_comm || rank.incarnation == incarnation)) what();
  });
}

void SimulatedRanks::Run(absl::Duration duration) {
  const absl::Time end = now_ + duration;
  while (!queue_.empty() && error_.empty() && queue_.top().time <= end) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.time;
    event.what();
  }
  if (!queue_.empty() && error_.empty()) now_ = end;
}

bool SimulatedRanks::ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->compute_ended && rank->comm_ended; });
}

absl::Time SimulatedRanks::ClockOf(const SimulatedRank& rank) const {
  return start_ + (now_ - start_) * rank.clock_rate;
}

absl::Duration SimulatedRanks::Random(absl::Duration longest) {
  return longest * std::uniform_real_distribution<double>(0, 1)(random_);
}

bool SimulatedRanks::Happens(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

void SimulatedRanks::Check(const SimulatedRank& rank, const std::optional<std::string>& wrong) {
  if (!wrong || !error_.empty()) return;
  error_ = absl::StrCat("seed ", options_.seed, " at ", absl::FormatDuration(elapsed()), " rank ",
                        rank.rank, " after round ", rank.machine.state().round, ": ", *wrong);
}

void SimulatedRanks::CheckPass(const SimulatedRank& rank, const SimulatedRank::Pass& pass,
                               const std::optional<SimulatedRank::Pass>& other) {
  if (!other) return;
  if ((pass.writes & (other->reads | other->writes)) != 0 || (pass.reads & other->writes) != 0) {
    Check(rank, absl::StrCat("two threads use one buffer: ", pass.reads, "/", pass.writes, " and ",
                             other->reads, "/", other->writes));
  }
}

void SimulatedRanks::Prepare(const SlipstreamPlan& plan, absl::Duration longest_delay) {
  newest_plan_ = plan;
  for (const auto& rank : ranks_) {
    Later(Random(longest_delay), *rank, /*of_comm=*/false,
          [me = rank.get(), plan] { me->machine.Prepare(plan); });
  }
}

void SimulatedRanks::Pump(SimulatedRank& rank) {
  if (Happens(0.5)) PumpComm(rank);  // Either thread may be the first to ask.
  PumpCompute(rank);
  PumpComm(rank);
}

void SimulatedRanks::PumpCompute(SimulatedRank& rank) {
  if (rank.dead || rank.compute_busy || rank.compute_ended || !error_.empty()) return;
  const ComputeOrder order = rank.machine.NextCompute(ClockOf(rank));
  if (rank.waits_since) {
    rank.waited[static_cast<size_t>(rank.wait)] += now_ - *rank.waits_since;
    rank.waits_since.reset();
  }
  if (order.kind == ComputeOrder::Kind::kWait) {
    rank.waits_since = now_;
    rank.wait = order.wait;
  }
  if (order.kind != ComputeOrder::Kind::kCopy && rank.group.Asks(rank.machine.update_periods())) {
    AskGroup(rank, order);
  } else {
    CarryOut(rank, order);
  }
}

void SimulatedRanks::CarryOut(SimulatedRank& rank, const ComputeOrder& order) {
  switch (order.kind) {
    case ComputeOrder::Kind::kWait:
      return;
    case ComputeOrder::Kind::kEnd:
      rank.compute_ended = true;
      if (rank.machine.fault().empty() && rank.x != rank.z) {
        Check(rank, "ends with another model");
      }
      return;
    case ComputeOrder::Kind::kStop:
      BeginStop(rank);
      return;
    case ComputeOrder::Kind::kUpdate:
    case ComputeOrder::Kind::kGradient:
      BeginStep(rank, order);
      return;
    case ComputeOrder::Kind::kCopy:
      break;
  }
  rank.compute_busy = rank.copies = true;
  rank.compute_pass = rank.PassOf(order);
  CheckPass(rank, *rank.compute_pass, rank.comm_pass);
  const absl::Duration took = Random(options_.longest_pass);
  Later(took, rank, /*of_comm=*/false, [this, &rank, took, order] {
    rank.Copy(order.copy);
    if (order.resets_optimizer) rank.slots.assign(kSimulatedSize, 0);
    rank.compute_busy = rank.copies = false;
    rank.compute_pass.reset();
    rank.machine.OnCopied(took);
    Check(rank, rank.CheckAccount());
    Pump(rank);
    RendezvousAgain();
  });
}

void SimulatedRanks::BeginStep(SimulatedRank& rank, const ComputeOrder& order) {
  rank.compute_busy = true;
  rank.compute_pass = rank.PassOf(order);
  CheckPass(rank, *rank.compute_pass, rank.comm_pass);
  const absl::Duration took = StepTime(rank);
  if (order.kind == ComputeOrder::Kind::kUpdate && GroupOf(rank).size() > 1) {
    rank.in_group = true;
    Later(took, rank, /*of_comm=*/true,
          [this, &rank, order, began = now_] { ShareGradient(rank, order, began); });
    return;
  }
  Later(took, rank, /*of_comm=*/false,
        [this, &rank, order, took] { EndStep(rank, order, took, RandomChange()); });
}

absl::Duration SimulatedRanks::StepTime(SimulatedRank& rank) {
  std::uniform_real_distribution<double> jitter(1 - options_.jitter, 1 + options_.jitter);
  const absl::Duration computed = options_.step * rank.slowness * jitter(random_);
  absl::Duration stalled = std::exchange(rank.extra, absl::ZeroDuration());
  if (Happens(options_.stall_probability)) {
    stalled += options_.stall;
    if (Happens(options_.freezing_share)) rank.frozen_until = now_ + options_.stall;
  }
  rank.computed += computed;
  rank.stalled += stalled;
  return computed + stalled;
}

// Begins a stop. All ranks must be there before one goes on, as they act together.
void SimulatedRanks::BeginStop(SimulatedRank& rank) {
  const RoundState& state = rank.machine.state();
  rank.compute_busy = rank.at_stop = true;
  if (rank.x != rank.z) Check(rank, "stands still with another model");
  if (rank.machine.updates() != rank.machine.sent_updates() + rank.machine.lost_updates()) {
    Check(rank, "stands still with work that is not sent");
  }
  Stop& stop = stops_.try_emplace(state.round, Stop{state.due, 0}).first->second;
  if (!(stop.due == state.due)) Check(rank, "something else is due than on other ranks");
  if (++stop.ranks < ranks()) return;
  if (state.due.save_order > 0) saves_[state.due.save_order] = state.round;
  for (const auto& one : ranks_) {
    if (!one->at_stop || one->machine.state().round != state.round || one->z != rank.z) {
      Check(*one, "is not at the stop at which the others are");
    }
    Later(Random(options_.longest_stop), *one, /*of_comm=*/true, [this, me = one.get()] {
      me->compute_busy = me->at_stop = false;
      me->machine.OnStopped(ClockOf(*me));
      Pump(*me);
    });
  }
}

SimulatedVector SimulatedRanks::RandomChange() {
  SimulatedVector change(kSimulatedSize, 0);
  std::uniform_int_distribution<int> size(1, 8);
  for (double& value : change) value = kSimulatedUnit * size(random_);
  return change;
}

void SimulatedRanks::EndStep(SimulatedRank& rank, const ComputeOrder& order, absl::Duration took,
                             const SimulatedVector& change) {
  const bool poisoned = poisons_ == rank.rank;
  if (poisoned) poisons_ = -1;
  ++rank.steps;
  rank.compute_busy = false;
  rank.compute_pass.reset();
  if (order.kind == ComputeOrder::Kind::kGradient) {
    rank.gradient = change;
    ++rank.gradient_number;
    rank.machine.OnGradient(poisoned ? std::numeric_limits<double>::quiet_NaN() : 1, took, 1);
  } else if (poisoned) {
    rank.x[0] = std::numeric_limits<double>::quiet_NaN();
    rank.slots[0] = rank.x[0];
    rank.poisoned = true;
    rank.machine.OnStepped(took, 1);
  } else if (options_.update) {
    options_.update(rank.rank, rank.x, rank.slots);
    rank.machine.OnStepped(took, 1);
  } else {
    rank.x = rank.x + change;
    rank.slots = rank.slots + change;
    rank.updates = rank.updates + change;
    rank.machine.OnStepped(took, 1);
    Check(rank, rank.CheckAccount());
  }
  if (rank.machine.late().misses() > LateGradients::kMissesBeforeStale &&
      rank.machine.state().plan.mode == SlipstreamMode::kDrop) {
    Check(rank, "four late gradients in a row");
  }
  Pump(rank);
}

}  // namespace paceline
