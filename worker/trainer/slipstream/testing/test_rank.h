// For tests: a rank that trains a small network with Slipstream, on a thread of a job with several
// (comm/rank_threads.h).
#ifndef WORKER_TRAINER_SLIPSTREAM_TESTING_TEST_RANK_H_
#define WORKER_TRAINER_SLIPSTREAM_TESTING_TEST_RANK_H_

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/slipstream/slipstream.h"
#include "worker/trainer/testing/fake_control.h"

namespace paceline {

// Maps inputs [samples, 4] to targets [samples, 1]: two layers, and statistics of the inputs.
class SmallModel : public Model {
 public:
  explicit SmallModel(c10::Device device = at::kCPU) : Model(device) {
    first_ = AddLinear("first", 4, 8);
    second_ = AddLinear("second", 8, 1);
    mean_ = AddBuffer("mean", at::zeros({4}));
    count_ = AddBuffer("count", at::zeros({}, at::kLong));
    AddBuffer("constant", at::zeros({3}), /*frozen=*/true);
  }

  at::Tensor Loss(const Batch& batch) override {
    const at::NoGradGuard no_grad;
    mean_.mul_(0.9).add_(batch.inputs.mean(0), 0.1);
    count_.add_(1);
    const at::AutoGradMode grad(true);
    const at::Tensor hidden = at::tanh(at::linear(batch.inputs, first_.weight, first_.bias));
    return at::mse_loss(at::linear(hidden, second_.weight, second_.bias), batch.targets);
  }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }

 private:
  Linear first_;
  Linear second_;
  at::Tensor mean_;
  at::Tensor count_;
};

// A rank's batch number `number`.
inline Batch SmallBatch(int rank, int64_t number, c10::Device device = at::kCPU) {
  const auto seed = static_cast<uint64_t>(1000 * (rank + 1) + number);
  const at::Generator random = at::detail::createCPUGenerator(seed);
  Batch batch;
  batch.samples = 8;
  batch.inputs = at::randn({8, 4}, random, at::kFloat);
  batch.targets = batch.inputs.sum(1, /*keepdim=*/true).sin().to(device);
  batch.inputs = batch.inputs.to(device);
  return batch;
}

inline TrainerConfig SmallJob(int ranks, int64_t steps) {
  TrainerConfig config;
  config.member.world_size = ranks;
  config.startup_timeout = absl::Seconds(60);
  config.strategy.kind = StrategyConfig::Kind::kSlipstream;
  config.steps = steps;
  config.schedule.steps = steps;
  config.schedule.peak = 0.05;
  config.optimizer.momentum = 0.9;
  return config;
}

inline TrainingPlan SmallPlan(int64_t version, SlipstreamMode mode,
                              const WindowBounds& window = {}) {
  TrainingPlan plan;
  plan.version = version;
  plan.slipstream.emplace();
  plan.slipstream->version = version;
  plan.slipstream->mode = mode;
  plan.slipstream->window = window;
  return plan;
}

using Tensors = std::vector<at::Tensor>;

// Expects equality to the bit.
inline void ExpectSame(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << "tensor " << i;
}

// Copies of the model's tensors: parameters, then buffers.
inline std::vector<at::Tensor> CopyOf(const ModelTensors& model) {
  std::vector<at::Tensor> copy;
  for (const at::Tensor& tensor : TensorsOf(model.parameters())) {
    copy.push_back(tensor.detach().clone());
  }
  for (const NamedTensor& buffer : model.buffers()) {
    if (buffer.tensor.is_floating_point()) copy.push_back(buffer.tensor.clone());
  }
  return copy;
}

// What a rank keeps over generations.
struct SmallState {
  explicit SmallState(const TrainerConfig& config, c10::Device device = at::kCPU)
      : model(device), optimizer(MakeOptimizer(config.optimizer, TensorsOf(model.parameters()))) {}

  SmallModel model;
  std::unique_ptr<Optimizer> optimizer;
  SlipstreamMemory memory;
  int64_t steps = 0;
};

struct SmallRank {
  SmallRank(const TrainerConfig& config_in, Groups& groups, const TrainingPlan& plan)
      : SmallRank(config_in, groups, plan, std::make_shared<SmallState>(config_in)) {}
  // `streams`: behave as on a device.
  SmallRank(const TrainerConfig& config_in, Groups& groups, const TrainingPlan& plan,
            std::shared_ptr<SmallState> state_in, DeviceStreams* streams = nullptr)
      : config(config_in),
        state(std::move(state_in)),
        slipstream({config, groups, BuildFirstPlan(groups, config, plan), model, *optimizer,
                    control, memory, streams, !config.data.eval.empty(),
                    [this](int64_t step) { return LearningRate(config.schedule, step); }}) {}

  // Additional actions; the training thread calls all of them.
  struct Hooks {
    std::function<void()> before_step = [] {};    // After the order for it.
    std::function<void()> before_update = [] {};  // When x's update or the gradient is made.
    std::function<void(const Slipstream::Order&)> at_stop = [](const auto&) {};
  };

  // Trains to the end.
  absl::Status Train(const Hooks& hooks) {
    const at::Tensor rate = MakeLearningRate(model.device());
    while (true) {
      const absl::StatusOr<Slipstream::Order> order = slipstream.Next([](ComputeOrder::Wait) {});
      if (!order.ok()) return order.status();
      if (order->kind == Slipstream::Order::Kind::kEnd) {
        last = *order;
        return absl::OkStatus();
      }
      if (order->kind == Slipstream::Order::Kind::kStop) {
        hooks.at_stop(*order);
        slipstream.OnStopped();
        continue;
      }
      hooks.before_step();
      const at::Tensor loss = model.Loss(SmallBatch(config.rank(), steps++, model.device()));
      loss.backward();
      hooks.before_update();
      const double value = loss.item<double>();
      if (order->kind == Slipstream::Order::Kind::kGradient) {
        slipstream.OnGradient(absl::Milliseconds(1), value);
      } else {
        at::Tensor(rate).fill_(LearningRate(config.schedule, order->step));
        optimizer->Step(rate, {});
        slipstream.OnUpdated(absl::Milliseconds(1), value);
      }
    }
  }
  absl::Status Train() { return Train(Hooks()); }

  // The loss on samples that nobody trains with.
  double Evaluate() {
    const at::NoGradGuard no_grad;
    double sum = 0;
    const at::Tensor mean = TensorsOf(model.buffers()).front().clone();
    for (int64_t number = 0; number < 20; ++number) {
      sum += model.Loss(SmallBatch(/*rank=*/99, number, model.device())).item<double>();
    }
    TensorsOf(model.buffers()).front().copy_(mean);
    return sum;
  }

  const TrainerConfig& config;
  FakeControl control;
  const std::shared_ptr<SmallState> state;
  SmallModel& model = state->model;
  std::unique_ptr<Optimizer>& optimizer = state->optimizer;
  SlipstreamMemory& memory = state->memory;
  int64_t& steps = state->steps;
  Slipstream slipstream;
  Slipstream::Order last;  // kEnd.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_TESTING_TEST_RANK_H_
