#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of the sound spec with precision bf16_full and these changes: "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const std::string& changes) {
  v1::JobSpec change;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &change)) << changes;
  v1::JobSpec spec = Sound();
  spec.set_precision(v1::BF16_FULL);
  spec.MergeFrom(change);
  std::vector<std::string> texts;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    texts.push_back(problem.field + " " + problem.message);
  }
  return texts;
}

TEST(CheckPrecisionTest, ModelsThatAreBuiltInMayHaveBfloat16Weights) {
  EXPECT_THAT(Problems(""), IsEmpty());
  EXPECT_THAT(Problems("optimizer { adamw { beta2: 0.99 } } model { llama {} }"), IsEmpty());
  EXPECT_THAT(Problems("optimizer { sgd { momentum: 0.9 nesterov: true } } ranks: 4 "
                       "strategy { hsgd { ladder { period: 2 size: 2 } ladder { period: 4 size: 4 "
                       "format: WIRE_FORMAT_INT8 } } optimizer_state: OPTIMIZER_STATE_AVERAGE }"),
              IsEmpty());
}

TEST(CheckPrecisionTest, AMovingAverageThatCouldNotFallIsRefused) {
  // Also the default.
  EXPECT_THAT(Problems("optimizer { adamw {} }"),
              ElementsAre(HasSubstr("optimizer.adamw.beta2 is 0.999 beside precision bf16_full")));
  EXPECT_THAT(Problems("optimizer { adamw { beta1: 0.995 beta2: 0.95 } }"),
              ElementsAre(HasSubstr("optimizer.adamw.beta1 is 0.995")));
  EXPECT_THAT(Problems("optimizer { sgd { momentum: 0.999 } }"),
              ElementsAre(HasSubstr("optimizer.sgd.momentum is 0.999")));
  EXPECT_THAT(Problems("precision: BF16 optimizer { adamw {} }"), IsEmpty());
}

TEST(CheckPrecisionTest, WhatIsNotBuiltForItIsRefused) {
  EXPECT_THAT(Problems("model { torchscript { file: '/m.pt' } }"),
              ElementsAre("precision is bf16_full; it needs model kind resnet18, mlp or llama, or "
                          "give bf16"));
  EXPECT_THAT(Problems("strategy { slipstream {} } ranks: 2"),
              ElementsAre("precision is bf16_full; it needs strategy ddp, local_sgd or hsgd "
                          "instead of slipstream, or give bf16"));
  EXPECT_THAT(Problems("strategy { auto {} } ranks: 2"),
              ElementsAre(HasSubstr("instead of auto, or give bf16")));
  EXPECT_THAT(Problems("model { llama {} } ranks: 4 shards: 2"),
              ElementsAre("precision is bf16_full; it needs shards 1 instead of 2, or give bf16"));
}

}  // namespace
}  // namespace paceline
