#include "worker/trainer/loop/pass_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/trainer/core/sampler.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Normalises over the samples of a rank, or of all that have some.
class Normalised : public Model {
 public:
  explicit Normalised(bool together) : Model(at::kCPU), together_(together) {}
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
  absl::Status CheckBatch(int64_t samples, int ranks) const override {
    if (samples * (together_ ? ranks : 1) > 1) return absl::OkStatus();
    return absl::InvalidArgumentError("one sample is too few");
  }

 private:
  const bool together_;
};

// Whether each pass of an epoch has enough for the model, by what the sampler gives each rank.
bool TrainsOnAnEpoch(const JobSize& size, int64_t samples, bool together) {
  std::vector<Sampler> ranks;
  for (int rank = 0; rank < size.ranks; ++rank) {
    Sampler::Options options;
    options.samples = samples;
    options.rank = rank;
    options.world_size = size.ranks;
    options.batch = size.batch;
    options.shuffle = false;
    options.drop_last = false;
    ranks.emplace_back(options);
  }
  while (ranks.front().position().epoch == 0) {
    size_t all = 0;
    std::vector<int64_t> indices;
    for (Sampler& sampler : ranks) {
      sampler.Next(&indices);
      if (!together && indices.size() == 1) return false;
      all += indices.size();
    }
    if (all == 1) return false;
  }
  return true;
}

TEST(PassCheckTest, ItIsRefusedExactlyIfSomeSizeLeavesARankTooFew) {
  for (const bool together : {false, true}) {
    const Normalised model(together);
    for (int64_t samples = 1; samples <= 40; ++samples) {
      for (int64_t batch = 1; batch <= 4; ++batch) {
        for (int most = 1; most <= 4 && most * batch <= samples; ++most) {
          TrainerConfig config;
          config.data.drop_last = false;
          config.member.world_size = most;
          config.member.batch = batch;
          bool trains = true;
          for (int ranks = 1; ranks <= most; ++ranks) {
            config.sizes.push_back({ranks, batch});
            trains = trains && TrainsOnAnEpoch(config.sizes.back(), samples, together);
          }
          EXPECT_EQ(CheckPasses(model, config, samples).ok(), trains)
              << samples << " samples, " << batch << " for each of up to " << most << " ranks"
              << (together ? ", together" : "");
        }
      }
    }
  }
}

// 20 samples are 6 + 6 + 6 + 2 on three ranks and 4 + 4 + ... on two.
TEST(PassCheckTest, TheNumberOfRanksIsNamedThatItIsRefusedFor) {
  const Normalised model(/*together=*/false);
  TrainerConfig config;
  config.member.world_size = 2;
  config.member.batch = 2;
  config.sizes = {{2, 2}, {3, 2}};
  EXPECT_TRUE(CheckPasses(model, config, 20).ok()) << "what is left over is skipped";
  config.data.drop_last = false;
  EXPECT_THAT(std::string(CheckPasses(model, config, 20).message()),
              AllOf(HasSubstr("with 3 ranks, which recovery.min_ranks and recovery.max_ranks "
                              "allow: data.drop_last is false, and the last pass of an epoch has "
                              "2 of the 20 samples"),
                    HasSubstr("one sample is too few")));
  config.sizes = {{2, 2}};
  EXPECT_TRUE(CheckPasses(model, config, 20).ok());
}

TEST(PassCheckTest, ARankThatMayBeAloneInItsGroupNeedsEnoughByItself) {
  const Normalised model(/*together=*/true);
  TrainerConfig config;
  config.member.world_size = 4;
  config.member.batch = 1;
  config.sizes = {{4, 1, /*together=*/2}};
  EXPECT_TRUE(CheckPasses(model, config, 20).ok());
  config.sizes = {{3, 1, /*together=*/1}, {4, 1, /*together=*/1}};
  EXPECT_THAT(std::string(CheckPasses(model, config, 20).message()),
              AllOf(HasSubstr("with 3 ranks"), HasSubstr("one sample is too few")));
  config.sizes = {{3, 2, /*together=*/1}, {4, 2, /*together=*/1}};
  EXPECT_TRUE(CheckPasses(model, config, 20).ok());
}

}  // namespace
}  // namespace paceline
