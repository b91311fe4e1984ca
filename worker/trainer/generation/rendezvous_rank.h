// For tests of the rendezvous: ranks of a tiny model, as threads, with states that losses leave.
#ifndef WORKER_TRAINER_GENERATION_RENDEZVOUS_RANK_H_
#define WORKER_TRAINER_GENERATION_RENDEZVOUS_RANK_H_

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/model/model.h"

namespace paceline {

class TinyModel : public Model {
 public:
  explicit TinyModel(at::ScalarType type) : Model(at::kCPU) {
    AddParameter("weight", at::zeros({3}, type));
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return parameters()[0].tensor.sum(); }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

// A rank that trained in generation 1 and meets in 2.
struct RendezvousRank {
  RendezvousRank(const TrainerConfig& config_in, const TrainingPlan& plan_in)
      : config(config_in),
        plan(plan_in),
        model(config.optimizer.compensated ? at::kBFloat16 : at::kFloat),
        optimizer(MakeOptimizer(config.optimizer, TensorsOf(model.parameters()))),
        undo(model) {
    undo.Keep();
    RankPosition& position = state.position;
    position.generation = 1;
    position.step = 10;
    position.rank = config.rank();
    position.gradients = {0, config.member.world_size};
    position.layout = LayoutOf(config.member, plan);
    state.data = {0, 100 + config.rank()};
    state.memory.all_equal = false;
  }

  void Set(float value) { at::Tensor(weight()).detach().fill_(value); }
  float value() const { return weight()[0].item<float>(); }
  at::Tensor weight() const { return model.parameters()[0].tensor; }

  // It has the gradients of the next step; their mean was cut off.
  void Compute() {
    state.in_step = state.is_open = state.position.computed = true;
    state.open_data = {0, 200 + config.rank()};
  }
  // It has done the next step; the exchange was cut off.
  void Cut(RankRange exchange) {
    state.position.exchanged = false;
    state.position.exchange = exchange;
  }
  // The latest exchange of parameters, after `step` steps, gave `value`.
  void SetMean(float value, int64_t step) {
    state.memory.mean = at::full({3}, value, at::kFloat);
    state.memory.mean_step = step;
  }
  void SetReference(float value, int64_t number) {
    StrategyMemory::Level& level = state.memory.levels.emplace_back();
    level.reference = at::full({3}, value, at::kFloat);
    level.reference_number = number;
  }
  void Forget() { state = TrainingState(); }

  // It has the mean of the next step's gradients, of a job with shards.
  void Prepare(float gradient) {
    Compute();
    state.position.prepared = true;
    state.max_norm = 1;
    weight().mutable_grad() = at::full({3}, gradient, at::kFloat);
  }

  Rendezvous AsRendezvous(Groups& groups) const {
    return {config,
            plan,
            groups,
            model,
            *optimizer,
            /*attachments=*/nullptr,
            &undo,
            [this](const at::Tensor& skip) {
              optimizer->Step(MakeLearningRate(at::kCPU).fill_(1), skip);
              return absl::OkStatus();
            }};
  }

  const TrainerConfig& config;
  const TrainingPlan& plan;
  TinyModel model;
  const std::unique_ptr<Optimizer> optimizer;
  StepUndo undo;
  TrainingState state;
};

// `arrange` sets each rank's state before the rendezvous; `check` runs afterwards.
inline void RunRendezvousOfAll(int ranks, const TrainingPlan& plan,
                               const std::function<void(RendezvousRank&)>& arrange,
                               const std::function<void(RendezvousRank&)>& check, int shards = 1,
                               const OptimizerConfig& optimizer = {}) {
  TrainerConfig job;
  job.optimizer = optimizer;
  job.member.world_size = ranks;
  job.member.shards = shards;
  job.member.generation = 2;
  job.startup_timeout = absl::Seconds(20);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    RendezvousRank rank(config, plan);
    arrange(rank);
    const absl::StatusOr<bool> begins = RunRendezvous(rank.AsRendezvous(groups), rank.state);
    ASSERT_TRUE(begins.ok()) << begins.status();
    EXPECT_FALSE(*begins);
    check(rank);
  });
}

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_RENDEZVOUS_RANK_H_
