#include "worker/trainer/report/figures_to_proto.h"

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

// Every field of the messages has a value, so that a forgotten one shows.
TEST(FiguresToProtoTest, EveryValueArrives) {
  ExpectText(ToProto(EvaluationResult{1, 0.25, 3, 4}), "step: 1 accuracy: 0.25 loss: 3 samples: 4");
  ExpectText(
      ToProto(PlanStatus{1, 2, 3, "late", 5}),
      "prepared_version: 1 active_version: 2 active_since_step: 3 error: 'late' failed_version: 5");
  ExpectText(ToProto(ProfileResult{1, "t", "m", 2, 3, 4, 5, "e"}),
             "id: 1 trace: 't' memory: 'm' first_step: 2 steps: 3 trace_bytes: 4 dump_s: 5 "
             "error: 'e'");
  RankFigures figures = {1,  2,  3,    4,    5,  6,  7,
                         8,  9,  10.0, 11.0, 12, {}, {},
                         13, 14, {},   {},   19, 20, FlopsSource::kCounted,
                         21, {}};
  figures.memory = {1, 2, 3, DeviceMemory{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}};
  figures.levels = {{2, true, 3, 4, 5}, {8, false, 6, 7, 8}};
  figures.slipstream = {
      SlipstreamMode::kFree, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, {}};
  figures.reported = {{"accuracy", 15, 16}, {"loss", 17, 18}};
  figures.objects = {22, 23, 24, 25, 26};
  ExpectText(ToProto(figures), R"(
    step: 1 steps: 2 training_s: 3 wall_s: 4 loss: 5 grad_norm: 6 learning_rate: 7
    samples_per_s: 8 tokens_per_s: 9 mfu: 10 mfu_wall: 11 data_wait_share: 12
    memory { rss: 1 rss_peak: 2 rss_slope: 3 active: 4 active_peak: 5 reserved: 6
             reserved_peak: 7 small_pool: 8 large_pool: 9 capacity: 10 alloc_retries: 11 ooms: 12
             small_pool_peak: 13 large_pool_peak: 14 }
    levels { group_size: 2 gradients: true count: 3 seconds: 4 bytes: 5 }
    levels { group_size: 8 count: 6 seconds: 7 bytes: 8 }
    drift: 13 skipped_steps: 14
    slipstream { mode: SLIPSTREAM_FREE rounds: 2 contributing_ranks: 3 contributions: 4
                 stale_rounds: 5 steps: 6 sent_updates: 7 lost_updates: 8 used_gradients: 9
                 dropped_gradients: 10 window_s: 11 cap: 12 cap_wait_s: 13 round_wait_s: 14
                 collective_s: 15 drift: 16 stretched_rounds: 17 round_collective_s: 18
                 round_copies_s: 19 }
    reported { name: 'accuracy' value: 15 step: 16 }
    reported { name: 'loss' value: 17 step: 18 }
    flops_per_sample: 19 flops_per_s: 20 flops_source: FLOPS_COUNTED peak_flops: 21
    objects { fetched_bytes: 22 retries: 23 cached_reads: 24 waited_reads: 25 wait_s: 26 })");
}

TEST(FiguresToProtoTest, ALearningRateOfZeroIsKnown) {
  const v1::RankFigures figures = ToProto(RankFigures());
  EXPECT_TRUE(figures.has_learning_rate());
  EXPECT_EQ(figures.learning_rate(), 0);
}

TEST(FiguresToProtoTest, EveryValueOfAnArtifactArrives) {
  ExpectText(ToProto(Artifact{"a", "/p", true, 1, "s", 2, 3, "e"}),
             "name: 'a' path: '/p' directory: true bytes: 1 sha256: 's' step: 2 time_us: 3 "
             "error: 'e'");
}

TEST(FiguresToProtoTest, EveryModeHasItsName) {
  const auto mode = [](SlipstreamMode value) {
    RankFigures figures;
    figures.slipstream.emplace().mode = value;
    return ToProto(figures).slipstream().mode();
  };
  EXPECT_EQ(mode(SlipstreamMode::kSync), v1::SLIPSTREAM_SYNC);
  EXPECT_EQ(mode(SlipstreamMode::kDrop), v1::SLIPSTREAM_DROP);
  EXPECT_EQ(mode(SlipstreamMode::kFree), v1::SLIPSTREAM_FREE);
  EXPECT_EQ(mode(SlipstreamMode::kPause), v1::SLIPSTREAM_PAUSE);
}

TEST(FiguresToProtoTest, EverySourceOfFlopsHasItsName) {
  const auto source = [](FlopsSource value) {
    RankFigures figures;
    figures.flops_source = value;
    return ToProto(figures).flops_source();
  };
  EXPECT_EQ(source(FlopsSource::kUnknown), v1::FLOPS_SOURCE_UNSPECIFIED);
  EXPECT_EQ(source(FlopsSource::kFormula), v1::FLOPS_FORMULA);
  EXPECT_EQ(source(FlopsSource::kCounted), v1::FLOPS_COUNTED);
  EXPECT_EQ(source(FlopsSource::kGiven), v1::FLOPS_GIVEN);
}

TEST(FiguresToProtoTest, EveryValueOfCheckpointsArrives) {
  ExpectText(ToProto(SaveStatus{1, 2, SaveState::kFailed, 3, SaveFailure::kNoSpace, "full"}),
             "step: 1 order: 2 state: SAVE_FAILED bytes: 3 failure: SAVE_NO_SPACE error: 'full'");
  const CheckpointFigures figures = {1,  2,  3, {{SaveFailure::kIo, 4}}, 5, 6, 7, 8, 9, 10,
                                     11, 12, 13};
  ExpectText(ToProto(figures), R"(
    saves: 1 bytes: 2 skipped: 3 failures { key: 3 value: 4 } staging_s: 5 blocked_s: 6 write_s: 7
    commits: 8 committing_s: 9 last_blocked_s: 10 restored_step: 11 restored_bytes: 12
    restore_s: 13)");
}

TEST(FiguresToProtoTest, EveryStateAndFailureHasItsName) {
  const auto state = [](SaveState value) {
    return ToProto(SaveStatus{1, 0, value, 0, {}, ""}).state();
  };
  EXPECT_EQ(state(SaveState::kWriting), v1::SAVE_WRITING);
  EXPECT_EQ(state(SaveState::kDurable), v1::SAVE_DURABLE);
  EXPECT_EQ(state(SaveState::kCommitted), v1::SAVE_COMMITTED);
  EXPECT_EQ(state(SaveState::kFailed), v1::SAVE_FAILED);
  EXPECT_EQ(state(SaveState::kSkipped), v1::SAVE_SKIPPED);
  const auto failure = [](SaveFailure value) {
    return ToProto(SaveStatus{1, 0, SaveState::kFailed, 0, value, ""}).failure();
  };
  EXPECT_EQ(failure(SaveFailure::kNone), v1::SAVE_FAILURE_UNSPECIFIED);
  EXPECT_EQ(failure(SaveFailure::kNoSpace), v1::SAVE_NO_SPACE);
  EXPECT_EQ(failure(SaveFailure::kNoPermission), v1::SAVE_NO_PERMISSION);
  EXPECT_EQ(failure(SaveFailure::kIo), v1::SAVE_IO);
  EXPECT_EQ(failure(SaveFailure::kNotAgreed), v1::SAVE_NOT_AGREED);
  EXPECT_EQ(failure(SaveFailure::kInconsistent), v1::SAVE_INCONSISTENT);
  EXPECT_EQ(failure(SaveFailure::kNan), v1::SAVE_NAN);
}

TEST(FiguresToProtoTest, WhatIsNotKnownStaysUnset) {
  EXPECT_FALSE(ToProto(EvaluationResult()).has_accuracy());
  const v1::RankFigures figures = ToProto(RankFigures());
  EXPECT_FALSE(figures.has_mfu());
  EXPECT_FALSE(figures.has_mfu_wall());
  EXPECT_FALSE(figures.memory().has_active());
  EXPECT_FALSE(figures.memory().has_ooms());
  EXPECT_FALSE(figures.has_slipstream());
}

}  // namespace
}  // namespace paceline
