// Slipstream as on a device: passes are only enqueued on two threads' streams (stream_races.h).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/slipstream/testing/stream_races.h"
#include "worker/trainer/slipstream/testing/test_rank.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Mode kModes[] = {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause};

// The host's sums are added in another order.
void ExpectClose(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i], b[i], /*rtol=*/1e-4, /*atol=*/1e-6)) << "tensor " << i;
  }
}

// Sets the same parameters for each job.
void SetParameters(const ModelTensors& model) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& one : TensorsOf(model.parameters())) {
    one.detach().copy_(at::arange(one.numel()).sin().view(one.sizes()).mul_(0.4));
  }
}

// What ranks end with: the first rank's, and that all have the same.
class Ends {
 public:
  void Add(Tensors model) {
    const absl::MutexLock lock(&mu_);
    models_.push_back(std::move(model));
  }
  Tensors Same() const {
    const absl::MutexLock lock(&mu_);
    for (const Tensors& one : models_) ExpectSame(one, models_.front());
    return models_.front();
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<Tensors> models_ ABSL_GUARDED_BY(mu_);
};

TEST(SlipstreamDeviceTest, NothingIsARaceInAnyModeNorBetweenThem) {
  constexpr int64_t kVersions = 40;
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    TrainerConfig job = SmallJob(3, 1'000'000);
    job.optimizer.kind = kind;
    job.schedule.peak = 0.01;
    job.data.eval = "some";
    job.eval_every = 20;
    Ends ends;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      StreamRaces races;
      const StreamRaces::Entered entered(races);
      SmallRank rank(config, groups, SmallPlan(1, Mode::kFree),
                     std::make_shared<SmallState>(config), &races);
      int64_t prepared = 1;
      SmallRank::Hooks hooks;
      hooks.before_step = [&] {
        if (rank.slipstream.plan().version < prepared) return;
        if (prepared == kVersions) return rank.slipstream.ReadyToLeave(2);
        ++prepared;
        TrainingPlan plan = SmallPlan(prepared, kModes[(prepared * prepared / 3) % 4]);
        plan.slipstream->averages_state = plan.slipstream->mode == Mode::kPause;
        rank.slipstream.Prepare(plan);
      };
      // Like an evaluation and a save.
      hooks.at_stop = [&](const Slipstream::Order& /*order*/) {
        rank.Evaluate();
        for (const at::Tensor& slot : TensorsOf(rank.optimizer->Slots())) slot.clone();
      };
      EXPECT_TRUE(rank.Train(hooks).ok());
      EXPECT_EQ(rank.slipstream.plan().version, kVersions);
      ends.Add(CopyOf(rank.model));
      EXPECT_THAT(races.races(), IsEmpty());
      EXPECT_GT(races.in_order(), 1000);
    });
    ends.Same();
  }
}

TEST(SlipstreamDeviceTest, TheModelIsThatOfACpu) {
  for (const Mode mode : {Mode::kSync, Mode::kPause}) {
    std::vector<Tensors> models;
    for (const bool on_device : {false, true}) {
      Ends ends;
      RunRanks(SmallJob(3, 30), [&](const TrainerConfig& config, Groups& groups) {
        StreamRaces streams;
        TrainingPlan plan = SmallPlan(1, mode, {1, 1, 1});
        plan.slipstream->averages_state = mode == Mode::kPause;
        const auto state = std::make_shared<SmallState>(config);
        SetParameters(state->model);
        SmallRank rank(config, groups, plan, state, on_device ? &streams : nullptr);
        EXPECT_TRUE(rank.Train().ok());
        ends.Add(CopyOf(rank.model));
      });
      models.push_back(ends.Same());
    }
    ExpectClose(models[0], models[1]);
  }
}

// The communication thread waits for sums, in gradient modes.
class BreaksOff : public StreamRaces {
 public:
  explicit BreaksOff(int at_sum) : left_(at_sum) {}
  std::unique_ptr<Aside> GoAside() override {
    in_sums_ = true;
    return StreamRaces::GoAside();
  }
  void Wait(Event event) override {
    StreamRaces::Wait(event);
    if (in_sums_ && --left_ == 0) throw std::runtime_error("broken off");
  }

 private:
  static thread_local bool in_sums_;
  std::atomic<int> left_;
};
thread_local bool BreaksOff::in_sums_ = false;

TEST(SlipstreamDeviceTest, NobodyBelievesASumThatARankHasBrokenOff) {
  RunRanks(SmallJob(3, 1'000'000), [&](const TrainerConfig& config, Groups& groups) {
    constexpr int kAtSum = 7;
    BreaksOff streams(config.rank() == 1 ? kAtSum : -1);
    const auto state = std::make_shared<SmallState>(config);
    {
      SmallRank rank(config, groups, SmallPlan(1, Mode::kSync), state, &streams);
      try {
        (void)rank.Train();
        ADD_FAILURE() << "no rank goes on";
      } catch (const CollectiveError& error) {
        if (config.rank() == 1) {
          EXPECT_THAT(error.what(), HasSubstr("broken off"));
        }
      }
    }
    EXPECT_EQ(state->memory.rank->state().round, kAtSum - 1);
  });
}

}  // namespace
}  // namespace paceline
