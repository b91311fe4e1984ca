#include "worker/daemon/trainers/left_steps.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

v1::StepBatch Batch(int rank, int records) {
  v1::StepBatch batch;
  batch.mutable_id()->set_rank(rank);
  for (int i = 0; i < records; ++i) batch.add_records()->set_step(i);
  return batch;
}

TEST(LeftStepsTest, BatchesAreTakenOnceInOrder) {
  LeftSteps left;
  EXPECT_FALSE(left.Take().has_value());
  EXPECT_EQ(left.Add(Batch(1, 2)), 0);
  EXPECT_EQ(left.Add(Batch(2, 3)), 0);
  EXPECT_EQ(left.Take()->SerializeAsString(), Batch(1, 2).SerializeAsString());
  EXPECT_EQ(left.Take()->records_size(), 3);
  EXPECT_FALSE(left.Take().has_value());
}

TEST(LeftStepsTest, TheOldestGiveWayAndAreCounted) {
  LeftSteps left;
  for (size_t n = 0; n < LeftSteps::kMaxBatches; ++n) EXPECT_EQ(left.Add(Batch(1, 7)), 0);
  EXPECT_EQ(left.Add(Batch(2, 5)), 7);
  size_t batches = 0;
  int rank = 0;
  while (const std::optional<v1::StepBatch> batch = left.Take()) {
    ++batches;
    rank = batch->id().rank();
  }
  EXPECT_EQ(batches, LeftSteps::kMaxBatches);
  EXPECT_EQ(rank, 2) << "the newest is there";
}

}  // namespace
}  // namespace paceline
