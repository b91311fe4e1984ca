#include "worker/daemon/trainers/ring_tail.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

class RingTailTest : public ::testing::Test {
 protected:
  RingTailTest() {
    EXPECT_TRUE(CreateStepRing(path_, 8192).ok());
    writer_.emplace(*StepRingWriter::Open(path_));
  }
  ~RingTailTest() override { ::unlink(path_.c_str()); }

  void RunSteps(uint64_t from, uint64_t to) {
    for (uint64_t step = from; step < to; ++step) {
      writer_->Enter(Phase::kForward, step);
      StepRecord record = writer_->EndStep(step);
      record.samples = 8;
      record.loss = 0.25f;
      writer_->Append(record);
    }
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/ring_tail_test.", ::getpid());
  std::optional<StepRingWriter> writer_;
};

TEST_F(RingTailTest, ProgressTellsWhereTheTrainerIs) {
  auto tail = RingTail::Open(path_);
  ASSERT_TRUE(tail.ok()) << tail.status();
  RunSteps(0, 3);
  writer_->Enter(Phase::kCommunication, 3);
  EXPECT_EQ(tail->Progress(MonotonicNanos()).collectives(), 0) << "they are not counted";
  writer_->ResetCollectives();
  writer_->CountCollective();
  tail->Poll();
  const uint64_t now = MonotonicNanos();
  const v1::Progress progress = tail->Progress(now + 2'000'000'000);
  EXPECT_EQ(progress.step(), 3);
  EXPECT_EQ(progress.phase(), v1::COMMUNICATION);
  EXPECT_EQ(progress.collectives(), 2);
  // After an evaluation the number is the same, whatever was counted before.
  writer_->RoundCollectivesUp();
  const int64_t rounded = tail->Progress(now).collectives();
  EXPECT_GT(rounded, 2);
  writer_->ResetCollectives();
  writer_->RoundCollectivesUp();
  EXPECT_EQ(tail->Progress(now).collectives(), rounded);
  EXPECT_GE(progress.phase_s(), 2);
  EXPECT_LT(progress.phase_s(), 12);
  EXPECT_EQ(progress.loss(), 0.25);
  EXPECT_GT(progress.step_s(), 0);
  EXPECT_GT(progress.samples_per_s(), 0);
}

TEST_F(RingTailTest, NewRingHasNoProgress) {
  const v1::Progress progress = RingTail::Open(path_)->Progress(MonotonicNanos());
  EXPECT_EQ(progress.SerializeAsString(), v1::Progress().SerializeAsString());
}

TEST_F(RingTailTest, RecordsAreTakenOnceInOrder) {
  auto tail = RingTail::Open(path_);
  EXPECT_FALSE(tail->TakeBatch().has_value());
  RunSteps(0, 1500);
  tail->Poll();
  const auto first = tail->TakeBatch();
  const auto second = tail->TakeBatch();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->records_size(), 1024);
  EXPECT_EQ(second->records_size(), 476);
  EXPECT_EQ(second->records(475).step(), 1499);
  EXPECT_EQ(second->records(475).samples(), 8);
  EXPECT_EQ(second->records(475).forward_ns(), second->records(475).total_ns());
  EXPECT_FALSE(tail->TakeBatch().has_value());
}

TEST_F(RingTailTest, EverythingInARecordIsSent) {
  auto tail = RingTail::Open(path_);
  StepRecord record;
  record.step = 5;
  record.total_ns = 100;
  for (int phase = 0; phase < kPhases; ++phase) record.phase_ns[phase] = 10 + phase;
  record.samples = 8;
  record.tokens = 64;
  record.wire_bytes = 4096;
  record.averaging_group_size = 4;
  record.workload = 512;
  record.loss = 0.5f;
  record.grad_norm = 1.5f;
  record.learning_rate = 0.25f;
  record.masked = true;
  writer_->Append(record);
  tail->Poll();
  const auto batch = tail->TakeBatch();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->records(0).ShortDebugString(),
            "step: 5 data_wait_ns: 11 forward_ns: 12 backward_ns: 13 communication_ns: 14 "
            "optimizer_ns: 15 total_ns: 100 samples: 8 loss: 0.5 averaging_ns: 16 "
            "averaging_group_size: 4 wire_bytes: 4096 tokens: 64 workload: 512 grad_norm: 1.5 "
            "learning_rate: 0.25 masked: true round_wait_ns: 17");
}

TEST_F(RingTailTest, EvaluationIsToldWithItsProgress) {
  auto tail = RingTail::Open(path_);
  writer_->ShowEvaluation(8, 120, 400);
  v1::Progress progress = tail->Progress(MonotonicNanos());
  progress.clear_phase_s();
  EXPECT_EQ(progress.ShortDebugString(),
            "step: 8 phase: EVALUATING evaluated_batches: 120 evaluation_batches: 400");
}

TEST_F(RingTailTest, OldestRecordsAreDroppedAndCounted) {
  auto tail = RingTail::Open(path_);
  RunSteps(0, 3000);
  tail->Poll();
  RunSteps(3000, 6000);
  tail->Poll();
  EXPECT_EQ(tail->TakeDropped(), 6000 - 4096);
  EXPECT_EQ(tail->TakeDropped(), 0) << "once";
  EXPECT_EQ(tail->TakeBatch()->records(0).step(), 6000 - 4096);
}

TEST_F(RingTailTest, RecordsThatCannotBeTrueAreCountedAsLost) {
  auto tail = RingTail::Open(path_);
  const auto spoil = {+[](StepRecord& record) { record.total_ns = UINT64_MAX; },
                      +[](StepRecord& record) { record.start_ns = UINT64_MAX; },
                      +[](StepRecord& record) { record.samples = UINT64_MAX; },
                      +[](StepRecord& record) { record.wire_bytes = UINT64_MAX; },
                      +[](StepRecord& record) { record.phase_ns[kPhases - 1] = UINT64_MAX; },
                      +[](StepRecord& record) { record.averaging_group_size = UINT64_MAX; },
                      +[](StepRecord& record) { record.step = UINT64_MAX; }};
  for (const auto& change : spoil) {
    StepRecord record;
    change(record);
    writer_->Append(record);
  }
  RunSteps(0, 1);
  tail->Poll();
  EXPECT_EQ(tail->TakeDropped(), static_cast<int64_t>(spoil.size()));
  const auto batch = tail->TakeBatch();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->records_size(), 1);
  EXPECT_GE(tail->Progress(MonotonicNanos()).samples_per_s(), 0);
}

TEST_F(RingTailTest, PhasesAddUp) {
  auto tail = RingTail::Open(path_);
  RunSteps(0, 10);
  tail->Poll();
  EXPECT_GT(tail->phase_ns()[static_cast<int>(Phase::kForward)], 0);
  EXPECT_EQ(tail->phase_ns()[static_cast<int>(Phase::kBackward)], 0);
}

TEST_F(RingTailTest, NewReaderBeginsWithWhatTheRingHolds) {
  RunSteps(0, 10);
  auto tail = RingTail::Open(path_);
  EXPECT_EQ(tail->TakeBatch()->records_size(), 10);
  EXPECT_EQ(tail->TakeDropped(), 0);
}

}  // namespace
}  // namespace paceline
