#include "bench/slipstream_simulation.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "slipstream/round_state.h"

namespace paceline {
namespace {

// Steps done before, because windows are shorter at the beginning of a training.
constexpr int64_t kStepsDone = int64_t{1} << 20;

RoundState StateOf(int ranks, SlipstreamMode mode, const WindowBounds& bounds) {
  RoundState state;
  state.total = RankSteps(ranks, kStepsDone);
  state.target_steps = std::numeric_limits<int64_t>::max();
  state.plan.version = 1;
  state.plan.mode = mode;
  state.plan.window = bounds;
  return state;
}

}  // namespace

SlipstreamSimulation::SlipstreamSimulation(const OwnSteps& steps, const SlipstreamCosts& costs,
                                           SlipstreamMode mode, const WindowBounds& bounds)
    : steps_(steps), costs_(costs) {
  const RoundState state = StateOf(steps.ranks(), mode, bounds);
  ranks_.reserve(static_cast<size_t>(steps.ranks()));
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    SlipstreamRank::Options options;
    options.rank = rank;
    ranks_.emplace_back(SlipstreamRank(options, state, now_));
    Later(absl::ZeroDuration(), What::kWoken, rank);
  }
}

double SlipstreamSimulation::steps_done() const {
  const RankSteps& total = ranks_[0].machine.state().total;
  return static_cast<double>(total.steps()) +
         static_cast<double>(total.remainder()) / steps_.ranks();
}

void SlipstreamSimulation::Run(absl::Duration duration) {
  const absl::Time end = now_ + duration;
  while (!queue_.empty() && queue_.top().time <= end) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.time;
    Happen(event);
  }
  now_ = end;
}

void SlipstreamSimulation::Later(absl::Duration delay, What what, int rank) {
  queue_.push({now_ + delay, ++events_, what, rank});
}

void SlipstreamSimulation::Pump(int rank) {
  PumpCompute(rank);
  PumpComm(rank);
}

void SlipstreamSimulation::PumpCompute(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  if (self.computes) return;
  self.compute = self.machine.NextCompute(now_);
  switch (self.compute.kind) {
    case ComputeOrder::Kind::kWait:
    case ComputeOrder::Kind::kStop:  // Nothing is evaluated or saved.
    case ComputeOrder::Kind::kEnd:
      return;
    case ComputeOrder::Kind::kCopy:
      self.computes = true;
      Later(absl::Seconds(costs_.pass_s), What::kCopied, rank);
      return;
    case ComputeOrder::Kind::kUpdate:
    case ComputeOrder::Kind::kGradient:
      break;
  }
  const OwnStep step = steps_.At(rank, self.begun++);
  self.computes = true;
  self.took = absl::Seconds(step.own_s);
  self.frozen_until = now_ + absl::Seconds(step.frozen_s);
  Later(self.took, What::kStepped, rank);
}

void SlipstreamSimulation::PumpComm(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  if (self.communicates) return;
  self.comm = self.machine.NextComm(now_);
  switch (self.comm.kind) {
    case CommOrder::Kind::kWait:
      // Schedules each wake-up only once, because the same time is requested again and again.
      if (self.comm.until != absl::InfiniteFuture() && self.comm.until != self.wakes_at) {
        self.wakes_at = self.comm.until;
        Later(self.comm.until - now_, What::kWoken, rank);
      }
      return;
    case CommOrder::Kind::kEnd:
      return;
    case CommOrder::Kind::kHash:
    case CommOrder::Kind::kFill:
    case CommOrder::Kind::kApply:
      Later(absl::Seconds(costs_.pass_s), What::kPassed, rank);
      break;
    case CommOrder::Kind::kExchange:
    case CommOrder::Kind::kReduce:
      Later(std::max(self.frozen_until - now_, absl::ZeroDuration()), What::kJoined, rank);
      break;
  }
  self.communicates = true;
}

void SlipstreamSimulation::Happen(const Event& event) {
  Rank& self = ranks_[static_cast<size_t>(event.rank)];
  switch (event.what) {
    case What::kStepped:
      self.computes = false;
      if (self.compute.kind == ComputeOrder::Kind::kUpdate) {
        self.machine.OnStepped(self.took, /*loss=*/1);
      } else {
        self.machine.OnGradient(/*squared=*/1, self.took, /*loss=*/1);
      }
      break;
    case What::kCopied:
      self.computes = false;
      self.machine.OnCopied(absl::Seconds(costs_.pass_s));
      break;
    case What::kPassed:
      self.communicates = false;
      EndPass(self);
      break;
    case What::kJoined: {
      const bool is_exchange = self.comm.kind == CommOrder::Kind::kExchange;
      if (is_exchange) {
        const std::vector<double> numbers = self.machine.Numbers(now_);
        sums_.resize(numbers.size(), 0);
        for (size_t i = 0; i < numbers.size(); ++i) sums_[i] += numbers[i];
      }
      if (++joined_ < steps_.ranks()) return;
      Later(absl::Seconds(is_exchange ? costs_.header_s : costs_.reduce_s), What::kSummed,
            event.rank);
      return;
    }
    case What::kSummed:
      EndCollective();
      return;
    case What::kWoken:
      break;
  }
  Pump(event.rank);
}

void SlipstreamSimulation::EndPass(Rank& rank) {
  switch (rank.comm.kind) {
    case CommOrder::Kind::kHash:
      rank.machine.OnHashed(0);
      return;
    case CommOrder::Kind::kFill:
      rank.machine.OnFilled(/*squared=*/1);
      return;
    default:
      rank.machine.OnApplied(now_);
      if (rank.machine.state().round > rounds_) rounds_ = rank.machine.state().round;
  }
}

void SlipstreamSimulation::EndCollective() {
  const std::vector<double> sums = std::move(sums_);
  sums_.clear();
  joined_ = 0;
  for (Rank& rank : ranks_) {
    rank.communicates = false;
    if (rank.comm.kind == CommOrder::Kind::kExchange) {
      rank.machine.OnExchanged(sums, now_);
    } else {
      rank.machine.OnReduced(now_);
    }
  }
  for (int rank = 0; rank < steps_.ranks(); ++rank) Pump(rank);
}

}  // namespace paceline
