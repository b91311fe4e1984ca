#include "worker/trainer/core/slipstream/testing/simulated_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// What the lossy format keeps: multiples of so many units, of updates and of their sum.
constexpr double kUpdateUnits = 3;
constexpr double kSumUnits = 16;

// That of a collective which is an exchange and one of the payload differ.
size_t Shape(const CommOrder& order, const SimulatedVector& input) {
  return 4 * input.size() + (order.kind == CommOrder::Kind::kExchange ? 1 : 0) +
         (order.payload.lossy ? 2 : 0);
}

}  // namespace

SimulatedRanks::SimulatedRanks(const Options& options) : options_(options), random_(options.seed) {
  RoundState state;
  state.total = RankSteps(options.ranks, options.first_step);
  state.target_steps = options.target_steps;
  state.plan.epoch = 1;
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
  After(delay, [&rank, of_comm, epoch = rank.epoch, what = std::move(what)] {
    if (!rank.dead && (!of_comm || rank.epoch == epoch)) what();
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
    MeetAnew();
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

// All ranks are at the stop before one of them goes on: what they do there they do together.
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

void SimulatedRanks::PumpComm(SimulatedRank& rank) {
  if (rank.dead || rank.comm_busy || rank.comm_ended || cut_off_ || !error_.empty()) return;
  const CommOrder order = rank.machine.NextComm(ClockOf(rank));
  if (order.kind == CommOrder::Kind::kWait) {
    if (order.until == absl::InfiniteFuture()) return;
    const absl::Duration wait = (order.until - ClockOf(rank)) / rank.clock_rate;
    Later(wait + absl::Nanoseconds(1), rank, /*of_comm=*/true, [this, &rank] { Pump(rank); });
    return;
  }
  if (order.kind == CommOrder::Kind::kEnd) {
    rank.comm_ended = true;
    PumpCompute(rank);
    return;
  }
  if (rank.at_stop) Check(rank, "does something for a round at a stop");
  rank.comm_busy = true;
  rank.comm_pass = rank.PassOf(order);
  CheckPass(rank, *rank.comm_pass, rank.compute_pass);
  if (order.kind == CommOrder::Kind::kExchange || order.kind == CommOrder::Kind::kReduce) {
    rank.in_collective = true;
    absl::Duration freeze = std::max(rank.frozen_until - now_, absl::ZeroDuration());
    if (Happens(options_.freeze_probability)) freeze += options_.freeze;
    Later(freeze, rank, /*of_comm=*/true, [this, &rank, order] { Join(rank, order); });
  } else {
    if (order.kind == CommOrder::Kind::kFill && order.fill == CommOrder::Fill::kUpdate) {
      rank.BeginFill();
    }
    Later(Random(options_.longest_pass), rank, /*of_comm=*/false,
          [this, &rank, order] { EndPass(rank, order); });
  }
}

void SimulatedRanks::EndPass(SimulatedRank& rank, const CommOrder& order) {
  rank.comm_busy = false;
  rank.comm_pass.reset();
  if (order.kind == CommOrder::Kind::kHash) {
    uint64_t hash = 0;
    for (const double value : rank.z) {
      hash = hash * 31 + static_cast<uint64_t>(static_cast<int64_t>(value));
    }
    rank.machine.OnHashed(hash);
  } else if (order.kind == CommOrder::Kind::kFill) {
    Check(rank, rank.Fill(order.fill));
    rank.machine.OnFilled(rank.squared);
  } else {
    Apply(rank, order);
  }
  Pump(rank);
  MeetAnew();
}

void SimulatedRanks::Join(SimulatedRank& rank, const CommOrder& order) {
  const bool is_lossy = order.kind == CommOrder::Kind::kReduce && order.payload.lossy;
  if (is_lossy) {
    rank.rest.assign(kSimulatedSize, 0);
    SimulatedRank::Round(kUpdateUnits, rank.wire.data(), rank.rest);
  }
  SimulatedVector input = order.kind == CommOrder::Kind::kExchange
                              ? rank.machine.Numbers(ClockOf(rank))
                              : rank.PayloadInput(order.payload);
  const int64_t number = rank.collectives++;
  Collective& collective = collectives_[number];
  const size_t shape = Shape(order, input);
  if (!collective.inputs.empty() && collective.shape != shape) {
    Check(rank, "ranks make different collectives");
    return;
  }
  collective.shape = shape;
  collective.inputs[rank.rank] = std::move(input);
  if (collective.inputs.size() < ranks_.size()) return;
  SimulatedVector sum(collective.inputs.begin()->second.size(), 0);
  for (const auto& [member, numbers] : collective.inputs) sum = sum + numbers;
  collectives_.erase(number);
  if (is_lossy) {
    const auto owner = static_cast<size_t>(number) % ranks_.size();
    SimulatedRank::Round(kSumUnits, sum.data(), ranks_[owner]->rest);
  }
  for (const auto& member : ranks_) {
    Later(Random(options_.longest_message), *member, /*of_comm=*/true,
          [this, me = member.get(), order, sum] { Deliver(*me, order, sum); });
  }
}

void SimulatedRanks::Deliver(SimulatedRank& rank, const CommOrder& order,
                             const SimulatedVector& sum) {
  // A collective may fail for some and not for others.
  if (broken_ && Happens(0.5)) return;
  rank.in_collective = rank.comm_busy = false;
  rank.comm_pass.reset();
  if (order.kind == CommOrder::Kind::kExchange) {
    rank.machine.OnExchanged(sum, ClockOf(rank));
  } else {
    rank.sum = sum;
    rank.machine.OnReduced(ClockOf(rank));
  }
  Pump(rank);
}

void SimulatedRanks::Apply(SimulatedRank& rank, const CommOrder& order) {
  const SlipstreamMode mode = rank.machine.state().plan.mode;
  const bool is_first = finished_.count(rank.machine.state().round + 1) == 0;
  if (is_first && IsLocal(mode) && rank.exact && checks_models_) {
    const SimulatedVector zeros(kSimulatedSize, 0);
    SimulatedVector updates = zeros, active = zeros, all = zeros;
    int actives = 0;
    for (const auto& member : ranks_) {
      updates = updates + member->in_flight;
      if (order.payload.lossy) updates = updates - member->rest;
      all = all + member->slots;
      if (member->in_flight[0] == 0) continue;
      active = active + member->slots;
      ++actives;
    }
    const SimulatedVector z = rank.z + updates / ranks();
    rank.Apply(order.payload);
    if (rank.z != z) Check(rank, "z is not the sum of what was sent");
    if (order.payload.state > 0 && !options_.lossy_updates &&
        rank.slots != (actives > 0 ? active / actives : all / ranks())) {
      Check(rank, "the optimizer's state is not the mean over those that made a step");
    }
  } else {
    rank.Apply(order.payload);
  }
  const RoundOutcome outcome = rank.machine.OnApplied(ClockOf(rank));
  rank.CountUsed();
  Check(rank, rank.CheckAccount());
  CheckRound(rank, outcome);
}

void SimulatedRanks::CheckRound(SimulatedRank& rank, const RoundOutcome& outcome) {
  const RoundState& state = rank.machine.state();
  const auto [found, is_first] = finished_.try_emplace(state.round);
  Finished& all = found->second;
  if (is_first) {
    if (latest_.has_ended()) Check(rank, "makes a round after the end");
    all.z = rank.z;
    all.slots = rank.slots;
    all.state = latest_ = state;
    all.outcome = outcome;
    trained_ = elapsed();
    if (outcome.takes_up_plan) plan_rounds_[state.plan.epoch] = state.round;
    finished_.erase(finished_.begin(), finished_.lower_bound(state.round - 2));
  }
  ++all.ranks;
  if (checks_models_ && all.z != rank.z) Check(rank, "z differs between ranks");
  if (!IsLocal(state.plan.mode) && all.slots != rank.slots) Check(rank, "optimizers differ");
  if (all.state.plan.epoch != state.plan.epoch || all.state.plan.mode != state.plan.mode ||
      !(all.state.total == state.total) || all.state.settles != state.settles ||
      all.state.window.step() != state.window.step() || all.outcome.ends != outcome.ends ||
      all.state.stands != state.stands || !(all.state.due == state.due)) {
    Check(rank, "what all should know alike differs between ranks");
  }
  if (all.ranks == ranks() && on_round_) on_round_(state.round);
}

}  // namespace paceline
