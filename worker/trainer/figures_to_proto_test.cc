#include "worker/trainer/figures_to_proto.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

template <typename Message>
void ExpectText(const Message& message, const std::string& text) {
  Message expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected)) << text;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(message, expected))
      << message.ShortDebugString();
}

// Every field of the messages has a value, so that one which is forgotten is seen.
TEST(FiguresToProtoTest, EveryValueArrives) {
  ExpectText(ToProto(EvaluationResult{1, 0.25, 3, 4}), "step: 1 accuracy: 0.25 loss: 3 samples: 4");
  ExpectText(
      ToProto(PlanStatus{1, 2, 3, "late", 5}),
      "prepared_epoch: 1 active_epoch: 2 active_since_step: 3 error: 'late' failed_epoch: 5");
  ExpectText(ToProto(ProfileResult{1, "t", "m", 2, 3, 4, 5, "e"}),
             "id: 1 trace: 't' memory: 'm' first_step: 2 steps: 3 trace_bytes: 4 dump_s: 5 "
             "error: 'e'");
  RankFigures figures = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10.0, 11.0, 12, {}, {}, 13, 14};
  figures.memory = {1, 2, 3, DeviceMemory{4, 5, 6, 7, 8, 9, 10, 11, 12}};
  figures.levels = {{2, true, 3, 4, 5}, {8, false, 6, 7, 8}};
  ExpectText(ToProto(figures), R"(
    step: 1 steps: 2 training_s: 3 wall_s: 4 loss: 5 grad_norm: 6 learning_rate: 7
    samples_per_s: 8 tokens_per_s: 9 mfu: 10 mfu_wall: 11 data_wait_share: 12
    memory { rss: 1 rss_peak: 2 rss_slope: 3 active: 4 active_peak: 5 reserved: 6
             reserved_peak: 7 small_pool: 8 large_pool: 9 capacity: 10 alloc_retries: 11 ooms: 12 }
    levels { group_size: 2 gradients: true count: 3 seconds: 4 bytes: 5 }
    levels { group_size: 8 count: 6 seconds: 7 bytes: 8 }
    drift: 13 skipped_steps: 14)");
}

TEST(FiguresToProtoTest, WhatIsNotKnownStaysUnset) {
  EXPECT_FALSE(ToProto(EvaluationResult()).has_accuracy());
  const v1::RankFigures figures = ToProto(RankFigures());
  EXPECT_FALSE(figures.has_mfu());
  EXPECT_FALSE(figures.has_mfu_wall());
  EXPECT_FALSE(figures.memory().has_active());
  EXPECT_FALSE(figures.memory().has_ooms());
}

}  // namespace
}  // namespace paceline
