// Ranks that average their parameters go back to copies, as many as before or fewer, and go on as
// if each had always been there.
#include "worker/trainer/copies/copy_restore.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

// Steps done at the copies, two steps after a mean; when a rank is lost, after a further one; at
// the end, after a mean of all ranks.
constexpr int64_t kCopied = 7;
constexpr int64_t kLost = 10;
constexpr int64_t kSteps = 13;
constexpr int64_t kPeriod = 4;

constexpr DataPosition kPosition{1, 700};  // In the data, at the copies.
constexpr int64_t kWeights = 600;          // More than a row of int8.

class Weights : public Model {
 public:
  Weights() : Model(at::kCPU) { AddParameter("weight", at::zeros({kWeights})); }
  at::Tensor Loss(const Batch& /*batch*/) override { return weight().sum(); }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
  at::Tensor weight() const { return parameters()[0].tensor; }
};

// What the trainer of this seat adds to its weights in a step.
at::Tensor UpdateOf(int seat, int64_t step) {
  const double phase = 0.7 * static_cast<double>(step) + seat;
  return at::sin(at::arange(kWeights, at::kFloat).mul(0.1 + seat).add(phase)).mul(0.1);
}

CopyOrders OrdersOf(int64_t generation, int rank, int ranks, int seat) {
  CopyOrders orders;
  orders.generation = generation;
  orders.seat = seat;
  orders.buddy_rank = (rank + 1) % ranks;
  orders.ward_rank = (rank + ranks - 1) % ranks;
  if (generation == 1) return orders;
  orders.complete_step = kCopied;
  orders.complete_generation = 1;
  orders.restore = true;
  return orders;
}

// Trains in generation 1, which copies its state once, and in later ones, which go back to that.
class Trainer {
 public:
  explicit Trainer(int seat)
      : seat_(seat),
        optimizer_(MakeOptimizer(OptimizerConfig(), TensorsOf(model_.parameters()))),
        undo_(model_) {
    StateCopies::Options options;
    options.every_steps = kCopied;
    options.steps = kSteps;
    options.on_report = [](const CopyReport& /*report*/) {};
    copies_.emplace(platform_, options);
    state_.position.step = 0;
    state_.position.rank = seat;
  }

  int seat() const { return seat_; }
  at::Tensor weight() const { return model_.weight().detach(); }
  // After this step of the latest generation that made it.
  const at::Tensor& after(int64_t step) const { return after_.at(step); }

  void Train(const TrainerConfig& config, Groups& groups, const TrainingPlan& plan, int64_t until) {
    const CopyOrders orders =
        OrdersOf(config.member.generation, config.rank(), config.member.world_size, seat_);
    const Rendezvous rendezvous{config, plan, groups, model_, *optimizer_, nullptr, &undo_};
    StrategyStart start;
    start.plan = BuildFirstPlan(groups, config, plan);
    copies_->Enter(orders);
    if (orders.restore) {
      const absl::Status restored = RestoreCopies(rendezvous, orders, *copies_, state_);
      ASSERT_TRUE(restored.ok()) << restored;
      ASSERT_EQ(state_.position.step, kCopied);
      EXPECT_EQ(state_.data, kPosition);
      EXPECT_EQ(state_.alone_as.rank, config.rank());
      EXPECT_EQ(state_.alone_as.world_size, config.member.world_size);
    }
    const absl::StatusOr<bool> begins = RunRendezvous(rendezvous, state_);
    ASSERT_TRUE(begins.ok()) << begins.status();
    copies_->Begin(ConnectCopies(groups, config.rank(), orders), state_.furthest);
    start.step = state_.position.step;
    start.resumes = !*begins;
    start.memory = state_.memory;
    start.alone_below = state_.position.alone_below;
    start.regrouped = state_.regrouped;
    Strategy strategy(
        groups, config, start, model_.parameters(), [] { return std::vector<at::Tensor>(); },
        control_);
    state_.position.Enter(config.member.generation);
    for (int64_t step = start.step; step < until; ++step) {
      Step(strategy, step);
      if (!orders.restore && step + 1 == kCopied) Copy(strategy, config, orders);
    }
    Leave(strategy, config);
  }

 private:
  void Step(Strategy& strategy, int64_t step) {
    strategy.BeginForward(step, /*last=*/true);
    {
      const at::NoGradGuard no_grad;
      model_.weight().add_(UpdateOf(seat_, step));
    }
    strategy.AfterStep(step, at::Tensor(), [] {});
    after_[step] = weight().clone();
    state_.position.step = step + 1;
  }

  void Copy(const Strategy& strategy, const TrainerConfig& config, const CopyOrders& orders) {
    ASSERT_TRUE(copies_->IsDue(kCopied));
    std::vector<StrategyMemory::Level> levels = strategy.Memory().levels;
    ImageFacts facts;
    facts.layout = LayoutOf(config.member, strategy.plan());
    facts.all_equal = false;
    facts.data = kPosition;
    copies_->Copy(kCopied, orders, {model_, *optimizer_, nullptr, &levels}, facts);
    copies_->BeforeChange();
  }

  void Leave(const Strategy& strategy, const TrainerConfig& config) {
    copies_->Leave();
    state_.position.rank = config.rank();
    state_.position.layout = LayoutOf(config.member, strategy.plan());
    state_.member = config.member;
    state_.memory = strategy.Memory();
  }

  const int seat_;
  Weights model_;
  const std::unique_ptr<Optimizer> optimizer_;
  StepUndo undo_;
  CpuPlatform platform_;
  FakeControl control_;
  TrainingState state_;
  std::map<int64_t, at::Tensor> after_;
  std::optional<StateCopies> copies_;
};

using Trainers = std::vector<std::unique_ptr<Trainer>>;  // By rank.

Trainers OfSeats(const std::vector<int>& seats) {
  Trainers trainers;
  for (const int seat : seats) trainers.push_back(std::make_unique<Trainer>(seat));
  return trainers;
}

void Train(const Trainers& trainers, int64_t generation, const TrainingPlan& plan, int64_t until) {
  TrainerConfig job = Job(static_cast<int>(trainers.size()), StrategyConfig::Kind::kHsgd);
  job.member.generation = generation;
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    trainers[static_cast<size_t>(config.rank())]->Train(config, groups, plan, until);
  });
}

// Each rank is a group of the lowest level.
TrainingPlan AloneThenAll(int ranks, WireFormat format) {
  return Plan(1,
              {{2, std::vector<int>(static_cast<size_t>(ranks), 1)}, {kPeriod, {ranks}, format}});
}

at::Tensor MeanOf(const std::vector<at::Tensor>& weights) {
  at::Tensor mean = at::zeros_like(weights.front());
  for (const at::Tensor& each : weights) mean.add_(each, 1.0 / static_cast<double>(weights.size()));
  return mean;
}

// The trainers have trained to `until` from the copies, in which they had `weights`: each step by
// themselves, and after each fourth the mean of all.
void ExpectSteps(const Trainers& trainers, std::vector<at::Tensor> weights, int64_t until,
                 double tolerance) {
  for (int64_t step = kCopied; step < until; ++step) {
    for (size_t i = 0; i < trainers.size(); ++i) {
      weights[i] = weights[i].add(UpdateOf(trainers[i]->seat(), step));
    }
    if (step % kPeriod == 0) weights.assign(weights.size(), MeanOf(weights));
    for (size_t i = 0; i < trainers.size(); ++i) {
      EXPECT_TRUE(at::allclose(trainers[i]->after(step), weights[i], /*rtol=*/0, tolerance))
          << "rank " << i << ", step " << step;
    }
  }
}

std::vector<at::Tensor> CopiedWeights(const Trainers& trainers) {
  std::vector<at::Tensor> weights;
  for (const auto& trainer : trainers) weights.push_back(trainer->after(kCopied - 1));
  return weights;
}

TEST(CopyRestoreTest, AsManyRanksTrainToTheBitAsUndisturbed) {
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kInt8}) {
    const TrainingPlan plan = AloneThenAll(2, format);
    const Trainers undisturbed = OfSeats({0, 1});
    Train(undisturbed, 1, plan, kSteps);
    Trainers trainers = OfSeats({0, 1});
    Train(trainers, 1, plan, kLost);
    trainers[1] = std::make_unique<Trainer>(1);  // It is lost; rank 0 has its copy.
    Train(trainers, 2, plan, kSteps);
    for (size_t rank = 0; rank < trainers.size(); ++rank) {
      for (int64_t step = kCopied; step < kSteps; ++step) {
        EXPECT_TRUE(trainers[rank]->after(step).equal(undisturbed[rank]->after(step)))
            << "rank " << rank << ", step " << step;
      }
    }
  }
}

// Rank 1 of 3 is lost, and nobody takes its seat.
TEST(CopyRestoreTest, FewerRanksAverageAtTheSameStepsInTheirOwnGroups) {
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kInt8}) {
    Trainers trainers = OfSeats({0, 1, 2});
    Train(trainers, 1, AloneThenAll(3, format), kLost);
    trainers.erase(trainers.begin() + 1);
    std::vector<at::Tensor> weights = CopiedWeights(trainers);
    ASSERT_FALSE(at::allclose(weights[0], weights[1], /*rtol=*/0, /*atol=*/0.01));
    Train(trainers, 2, AloneThenAll(2, format), kSteps);
    // These have had no vector in common, so a mean of both comes first.
    const bool is_int8 = format == WireFormat::kInt8;
    if (is_int8) weights.assign(weights.size(), MeanOf(weights));
    ExpectSteps(trainers, weights, kSteps, /*tolerance=*/is_int8 ? 0.02 : 1e-5);
    EXPECT_TRUE(trainers[0]->weight().equal(trainers[1]->weight())) << "after a mean of all";
  }
}

// The job's ladder has been given up since the copies: nothing else would make the ranks equal.
TEST(CopyRestoreTest, RanksWithoutALadderAreEqualBeforeTheirFirstStep) {
  const Trainers trainers = OfSeats({0, 1});
  Train(trainers, 1, AloneThenAll(2, WireFormat::kFp32), kLost);
  const std::vector<at::Tensor> copied = CopiedWeights(trainers);
  Train(trainers, 2, Plan(2, {}), kCopied + 1);
  ExpectSteps(trainers, {MeanOf(copied), MeanOf(copied)}, kCopied + 1, /*tolerance=*/1e-5);
}

}  // namespace
}  // namespace paceline
