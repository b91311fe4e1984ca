// For tests of one rank: the test plays the other ranks and the network.
#ifndef SLIPSTREAM_RANK_FIXTURE_H_
#define SLIPSTREAM_RANK_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/rank.h"

namespace paceline {

constexpr absl::Duration kTestStep = absl::Milliseconds(50);

// Rank 0 of two or more; the test decides what the others send, all of them the same.
class RankTest : public testing::Test {
 protected:
  RoundState State(SlipstreamMode mode) const {
    RoundState state;
    state.total = RankSteps(ranks_);
    state.target_steps = 1000;
    state.plan.version = 1;
    state.plan.mode = mode;
    return state;
  }

  void Start(SlipstreamMode mode, bool stops_at_bad_update = true) {
    rank_.emplace(SlipstreamRank::Options{0, stops_at_bad_update, startup_steps_}, State(mode),
                  now_);
  }

  ComputeOrder NextCompute() { return rank_->NextCompute(now_); }
  CommOrder NextComm() { return rank_->NextComm(now_); }

  ComputeOrder::Copy CopyNext() {
    const ComputeOrder order = NextCompute();
    EXPECT_EQ(order.kind, ComputeOrder::Kind::kCopy);
    rank_->OnCopied(absl::ZeroDuration());
    return order.copy;
  }
  // Makes one step, with the copies before it.
  void Step(double squared = 1) {
    ComputeOrder order = NextCompute();
    while (order.kind == ComputeOrder::Kind::kCopy) {
      rank_->OnCopied(absl::ZeroDuration());
      order = NextCompute();
    }
    now_ += kTestStep;
    if (order.kind == ComputeOrder::Kind::kUpdate) {
      rank_->OnStepped(kTestStep, loss_);
    } else {
      ASSERT_EQ(order.kind, ComputeOrder::Kind::kGradient);
      rank_->OnGradient(squared, kTestStep, loss_);
    }
  }
  void Exchange(const RoundHeader& other) {
    std::vector<double> sums = rank_->Numbers(now_);
    for (int rank = 1; rank < ranks_; ++rank) {
      const std::vector<double> numbers = HeaderNumbers(other, rank);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
    }
    rank_->OnExchanged(sums, now_);
  }
  // Makes the next round. Returns the orders that the communication thread was given.
  std::vector<CommOrder::Kind> Round(const RoundHeader& other = {}, double squared = 1) {
    std::vector<CommOrder::Kind> orders;
    outcome_.reset();
    while (!outcome_ && rank_->fault().empty()) {
      const CommOrder order = NextComm();
      if (order.kind == CommOrder::Kind::kWait) {
        if (order.until == absl::InfiniteFuture()) break;
        now_ = order.until;
        continue;
      }
      orders.push_back(order.kind);
      payload_ = order.payload;
      if (order.kind == CommOrder::Kind::kHash) rank_->OnHashed(7);
      if (order.kind == CommOrder::Kind::kExchange) Exchange(other);
      if (order.kind == CommOrder::Kind::kFill) {
        rank_->OnFilled(order.fill == CommOrder::Fill::kUpdate ? squared : 0);
        fill_ = order.fill;
      }
      if (order.kind == CommOrder::Kind::kReduce) rank_->OnReduced(now_);
      if (order.kind == CommOrder::Kind::kApply) outcome_ = rank_->OnApplied(now_);
      if (order.kind == CommOrder::Kind::kEnd) break;
    }
    return orders;
  }

  static RoundHeader Steps(int64_t steps) {
    RoundHeader header;
    header.steps = steps;
    return header;
  }
  static RoundHeader Ready() {
    RoundHeader header;
    header.ready = header.time_is_up = true;
    header.steps = 1;
    return header;
  }

  int ranks_ = 2;
  int64_t startup_steps_ = 0;
  double loss_ = 1;  // Of each step.
  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::optional<SlipstreamRank> rank_;
  std::optional<RoundOutcome> outcome_;
  CommOrder::Payload payload_;
  std::optional<CommOrder::Fill> fill_;
};

}  // namespace paceline

#endif  // SLIPSTREAM_RANK_FIXTURE_H_
