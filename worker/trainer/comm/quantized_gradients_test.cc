#include "worker/trainer/comm/quantized_gradients.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "worker/trainer/comm/cpu_row_codec.h"
#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

// Three parameters: less than a row, more than one, and several.
const std::vector<int64_t>& Sizes() {
  static const std::vector<int64_t> sizes = {300, 700, 5 * kRowValues + 9};
  return sizes;
}

using Bucket = std::vector<size_t>;  // Indices of parameters.

// As after a first step, when the buckets are arranged anew.
std::vector<Bucket> BucketsOf(int round) {
  if (round == 0) return {{2}, {1, 0}};
  return {{0, 2}, {1}};
}

// Gradients of a parameter on a rank.
at::Tensor Draw(int rank, int round, size_t parameter) {
  std::mt19937 random(static_cast<unsigned>(10000 * rank + 100 * round) +
                      static_cast<unsigned>(parameter));
  std::normal_distribution<float> normal;
  at::Tensor tensor = at::empty({Sizes()[parameter]}, at::kFloat);
  float* const values = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) values[i] = normal(random);
  return tensor;
}

at::Tensor Gradients(int rank, int round, const Bucket& bucket) {
  std::vector<at::Tensor> drawn;
  for (const size_t parameter : bucket) drawn.push_back(Draw(rank, round, parameter));
  return at::cat(drawn);
}

// All ranks in one thread: what each has left out, and the means, by the header's words.
class Model {
 public:
  Model(RowFormat format, int ranks) : format_(format), rests_(static_cast<size_t>(ranks)) {
    for (std::vector<at::Tensor>& rests : rests_) {
      for (const int64_t size : Sizes()) rests.push_back(at::zeros({size}, at::kFloat));
    }
  }

  at::Tensor Average(int round, const Bucket& bucket) {
    const auto ranks = static_cast<int64_t>(rests_.size());
    at::Tensor sum;
    std::vector<at::Tensor> errors;
    for (size_t rank = 0; rank < rests_.size(); ++rank) {
      std::vector<at::Tensor> rests;
      for (const size_t parameter : bucket) rests.push_back(rests_[rank][parameter]);
      const at::Tensor vector =
          Gradients(static_cast<int>(rank), round, bucket).div(ranks).add(at::cat(rests));
      if (!sum.defined()) sum = at::zeros_like(vector);
      errors.push_back(Send(vector, sum));
    }
    at::Tensor mean = at::zeros_like(sum);
    const at::Tensor of_sum = Send(sum, mean);
    // Each rank owns so many values of the sum, and keeps what was left out of them.
    const int64_t part = (RowsOf(sum.numel()) + ranks - 1) / ranks * kRowValues;
    for (size_t rank = 0; rank < rests_.size(); ++rank) {
      const int64_t first = std::min(static_cast<int64_t>(rank) * part, sum.numel());
      const int64_t values = std::min(part, sum.numel() - first);
      errors[rank].narrow(0, first, values).add_(of_sum.narrow(0, first, values));
      int64_t place = 0;
      for (const size_t parameter : bucket) {
        rests_[rank][parameter] = errors[rank].narrow(0, place, Sizes()[parameter]).clone();
        place += Sizes()[parameter];
      }
    }
    return mean;
  }

  at::Tensor RestOf(int rank) const { return at::cat(rests_[static_cast<size_t>(rank)]); }

 private:
  // Adds what is read of `vector` to `sum`. Returns what was left out.
  at::Tensor Send(const at::Tensor& vector, const at::Tensor& sum) {
    const RowCodes codes{at::empty({CodeBytes(format_, vector.numel())}, at::kByte),
                         at::empty({RowsOf(vector.numel())}, at::kFloat)};
    at::Tensor error = at::zeros_like(vector);
    codec_.Encode(format_, vector, error, codes);
    codec_.AddDecoded(format_, codes, 1, sum);
    return error;
  }

  const RowFormat format_;
  CpuRowCodec codec_;
  std::vector<std::vector<at::Tensor>> rests_;  // By rank and parameter.
};

// A rank with the three parameters.
struct Rank {
  Rank(RowFormat format, Groups& groups)
      : gradients(groups.row_codec(), format, MakeParameters(&parameters)) {
    gradients.SetGroup(&groups.all());
  }

  static const std::vector<at::Tensor>& MakeParameters(std::vector<at::Tensor>* parameters) {
    for (const int64_t size : Sizes()) parameters->push_back(at::zeros({size}, at::kFloat));
    return *parameters;
  }

  at::Tensor Average(int rank, int round, const Bucket& bucket) {
    std::vector<at::Tensor> of_bucket;
    for (const size_t parameter : bucket) of_bucket.push_back(parameters[parameter]);
    at::Tensor flat = Gradients(rank, round, bucket);
    gradients.Average(flat, of_bucket);
    return flat;
  }

  std::vector<at::Tensor> parameters;
  QuantizedGradients gradients;
};

class QuantizedGradientsTest : public testing::TestWithParam<RowFormat> {};

TEST_P(QuantizedGradientsTest, AreThoseOfTheModelToTheBitOnAllRanks) {
  for (const int ranks : {2, 3}) {
    RunRanks(Ranks(ranks), [&](const TrainerConfig& config, Groups& groups) {
      Rank rank(GetParam(), groups);
      Model model(GetParam(), ranks);
      for (int round = 0; round < 4; ++round) {
        rank.gradients.BeginPass();
        for (const Bucket& bucket : BucketsOf(round)) {
          ASSERT_TRUE(
              rank.Average(config.rank(), round, bucket).equal(model.Average(round, bucket)))
              << round;
        }
        rank.gradients.Finish();
        ASSERT_TRUE(rank.gradients.rest().equal(model.RestOf(config.rank()))) << round;
      }
    });
  }
}

// Means, and what is still to be sent, add up to what the ranks had.
TEST_P(QuantizedGradientsTest, NothingIsLost) {
  constexpr int kRanks = 3;
  const Bucket all = {0, 1, 2};
  RunRanks(Ranks(kRanks), [&](const TrainerConfig& config, Groups& groups) {
    Rank rank(GetParam(), groups);
    at::Tensor sent;
    at::Tensor had;
    for (int round = 0; round < 20; ++round) {
      rank.gradients.BeginPass();
      const at::Tensor mean = rank.Average(config.rank(), round, all).to(at::kDouble);
      rank.gradients.Finish();
      sent = round == 0 ? mean : sent.add(mean);
      for (int other = 0; other < kRanks; ++other) {
        const at::Tensor share = Gradients(other, round, all).to(at::kDouble).div(kRanks);
        had = had.defined() ? had.add(share) : share;
      }
    }
    at::Tensor rests = rank.gradients.rest().to(at::kDouble);
    groups.all().Sum(rests);
    EXPECT_LT(sent.add(rests).sub(had).abs().max().item<double>(), 1e-4);
    EXPECT_GT(rests.abs().max().item<double>(), 1e-3) << "something was left out";
  });
}

TEST_P(QuantizedGradientsTest, AMeanThatIsRepeatedBeginsAsBefore) {
  const Bucket all = {0, 1, 2};
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Rank rank(GetParam(), groups);
    rank.gradients.BeginPass();
    rank.Average(config.rank(), 0, all);
    rank.gradients.Finish();
    const at::Tensor first = rank.gradients.rest().clone();
    EXPECT_FALSE(rank.gradients.rest_if_repeated().any().item<bool>()) << "zero at the start";

    rank.gradients.BeginPass();
    EXPECT_FALSE(rank.gradients.rest_if_repeated().defined()) << "the first mean counts";
    EXPECT_TRUE(rank.gradients.rest().equal(first));
    const at::Tensor mean = rank.Average(config.rank(), 1, all);
    EXPECT_TRUE(rank.gradients.rest().equal(first)) << "not finished";
    rank.gradients.Finish();
    const at::Tensor second = rank.gradients.rest().clone();
    EXPECT_TRUE(rank.gradients.rest_if_repeated().equal(first));

    Rank again(GetParam(), groups);
    again.gradients.SetRest(rank.gradients.rest_if_repeated());
    again.gradients.BeginPass();
    EXPECT_TRUE(again.Average(config.rank(), 1, all).equal(mean));
    again.gradients.Finish();
    EXPECT_TRUE(again.gradients.rest().equal(second));
  });
}

// All ranks skip the step, so that nothing of it is sent later, and what was to be sent before is.
TEST_P(QuantizedGradientsTest, WhatIsNotFiniteIsSeenByAllAndForgotten) {
  const Bucket all = {0, 1, 2};
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Rank rank(GetParam(), groups);
    rank.gradients.BeginPass();
    rank.Average(config.rank(), 0, all);
    rank.gradients.Finish();
    const at::Tensor first = rank.gradients.rest().clone();

    rank.gradients.BeginPass();
    at::Tensor flat = Gradients(config.rank(), 1, {2});
    if (config.rank() == 1) flat[kRowValues + 3] = std::numeric_limits<float>::quiet_NaN();
    rank.gradients.Average(flat, {rank.parameters[2]});
    EXPECT_FALSE(flat.narrow(0, kRowValues, kRowValues).isfinite().any().item<bool>());
    EXPECT_TRUE(flat.narrow(0, 0, kRowValues).isfinite().all().item<bool>());
    EXPECT_TRUE(rank.Average(config.rank(), 1, {0, 1}).isfinite().all().item<bool>());
    rank.gradients.Finish();
    EXPECT_TRUE(rank.gradients.rest().equal(first));
    rank.gradients.BeginPass();
    EXPECT_TRUE(rank.Average(config.rank(), 2, all).isfinite().all().item<bool>());
  });
}

// A codec that fails after so many calls of AddDecoded.
class FailingCodec : public CpuRowCodec {
 public:
  explicit FailingCodec(int calls) : calls_(calls) {}

  void AddDecoded(RowFormat format, const RowCodes& codes, float factor, at::Tensor sum) override {
    if (--calls_ < 0) throw CollectiveError("a test", "the result is lost");
    CpuRowCodec::AddDecoded(format, codes, factor, sum);
  }

 private:
  int calls_;
};

// Rank 0 loses the result, when rank 1 has it: rank 0 can take the step from there, and has nothing
// to send of it but what the other ranks lack, too.
TEST_P(QuantizedGradientsTest, WhatTheOthersHaveIsNotSentAgain) {
  const Bucket all = {0, 1, 2};
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    // A mean has four calls: two add both ranks' messages up, two read the sums.
    FailingCodec codec(config.rank() == 0 ? 6 : 1000);
    std::vector<at::Tensor> parameters;
    QuantizedGradients gradients(codec, GetParam(), Rank::MakeParameters(&parameters));
    gradients.SetGroup(&groups.all());
    Model model(GetParam(), 2);
    at::Tensor before;
    for (int round = 0; round < 2; ++round) {
      before = model.RestOf(config.rank());
      model.Average(round, all);
      gradients.BeginPass();
      at::Tensor flat = Gradients(config.rank(), round, all);
      if (round == 1 && config.rank() == 0) {
        EXPECT_THROW(gradients.Average(flat, parameters), CollectiveError);
      } else {
        gradients.Average(flat, parameters);
        gradients.Finish();
      }
    }
    EXPECT_TRUE(gradients.rest_if_sent().equal(model.RestOf(config.rank())));
    EXPECT_TRUE(gradients.rest_if_repeated().equal(before));
    EXPECT_FALSE(before.equal(model.RestOf(config.rank())));
  });
}

TEST_P(QuantizedGradientsTest, SendAQuarterOfTheBytes) {
  RunRanks(Ranks(4), [&](const TrainerConfig& config, Groups& groups) {
    Rank rank(GetParam(), groups);
    rank.gradients.BeginPass();
    rank.Average(config.rank(), 0, {2});
    // 6 rows make 2 for each of 4 ranks.
    EXPECT_EQ(rank.gradients.bytes(), 2 * 3 * 2 * (512 + 4));
    rank.gradients.BeginPass();
    EXPECT_EQ(rank.gradients.bytes(), 0);
  });
}

TEST_P(QuantizedGradientsTest, AfterAFailureTheStepsOtherMeansFailToo) {
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Rank rank(GetParam(), groups);
    rank.gradients.BeginPass();
    groups.connections().ShutDown(/*store_port=*/0);
    groups.Abort();
    EXPECT_THROW(rank.Average(config.rank(), 0, {0}), CollectiveError);
    EXPECT_THROW(rank.Average(config.rank(), 0, {1}), CollectiveError);
    EXPECT_FALSE(rank.gradients.rest().any().item<bool>());
    EXPECT_FALSE(rank.gradients.rest_if_repeated().any().item<bool>());
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedGradientsTest,
                         testing::Values(RowFormat::kInt8, RowFormat::kFp8));

TEST(QuantizedGradientsMakeTest, OnlyInt8AndFp8HaveErrorFeedback) {
  CpuRowCodec codec;
  const std::vector<at::Tensor> parameters = {at::zeros({3}, at::kFloat)};
  const at::Tensor rest = at::full({3}, 0.5, at::kFloat);
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16}) {
    EXPECT_EQ(QuantizedGradients::Make(codec, format, parameters, rest), nullptr);
  }
  for (const WireFormat format : {WireFormat::kInt8, WireFormat::kFp8}) {
    const auto made = QuantizedGradients::Make(codec, format, parameters, rest);
    ASSERT_NE(made, nullptr);
    EXPECT_TRUE(made->rest().equal(rest));
  }
}

}  // namespace
}  // namespace paceline
