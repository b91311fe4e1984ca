// What simulated ranks do in their communication threads: rounds.
#include <algorithm>
#include <utility>

#include "slipstream/testing/simulated_ranks.h"

namespace paceline {
namespace {

// The lossy format keeps multiples of this many units, in updates and in their sum.
constexpr double kUpdateUnits = 3;
constexpr double kSumUnits = 16;

// Identifies what a collective sums: an exchange and a payload must not meet in one.
size_t Shape(const CommOrder& order, const SimulatedVector& input) {
  return 4 * input.size() + (order.kind == CommOrder::Kind::kExchange ? 1 : 0) +
         (order.payload.lossy ? 2 : 0);
}

}  // namespace

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
  RendezvousAgain();
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
  // A collective may fail for only some ranks.
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
    if (outcome.takes_up_plan) plan_rounds_[state.plan.version] = state.round;
    finished_.erase(finished_.begin(), finished_.lower_bound(state.round - 2));
  }
  ++all.ranks;
  if (checks_models_ && all.z != rank.z) Check(rank, "z differs between ranks");
  if (!IsLocal(state.plan.mode) && all.slots != rank.slots) Check(rank, "optimizers differ");
  if (all.state.plan.version != state.plan.version || all.state.plan.mode != state.plan.mode ||
      !(all.state.total == state.total) || all.state.settles != state.settles ||
      all.state.window.step() != state.window.step() || all.outcome.ends != outcome.ends ||
      all.state.stands != state.stands || !(all.state.due == state.due)) {
    Check(rank, "what all should know alike differs between ranks");
  }
  if (all.ranks == ranks() && on_round_) on_round_(state.round);
}

}  // namespace paceline
