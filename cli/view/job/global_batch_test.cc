#include "cli/view/job/job_text.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

v1::JobSpec Spec(int ranks, int batch, int passes) {
  v1::JobSpec spec;
  spec.set_ranks(ranks);
  spec.set_batch_per_rank(batch);
  spec.set_accumulation_steps(passes);
  return spec;
}

TEST(GlobalBatchTest, IsTheProductAndDoesNotOverflow) {
  EXPECT_EQ(GlobalBatch(Spec(4, 16, 2)), 128);
  EXPECT_EQ(GlobalBatch(Spec(4, 16, 0)), 64);
  EXPECT_EQ(GlobalBatch(Spec(1 << 16, 1 << 16, 2)), int64_t{1} << 33);
}

TEST(GlobalBatchTest, SameBatchIsNotWorthALine) {
  EXPECT_EQ(BatchChangeText(Spec(4, 16, 0), Spec(2, 16, 2), {}), "");
}

TEST(GlobalBatchTest, ChangeNamesTheFlagsThatKeepIt) {
  EXPECT_EQ(BatchChangeText(Spec(4, 16, 1), Spec(2, 16, 1), {}),
            "the global batch was 64 (4 ranks x 16 x 1) and is now 32 (2 ranks x 16 x 1); "
            "--accumulation-steps 2 or --batch-per-rank 32 keeps it");
  // 3 ranks with 16 samples cannot make 96; with 32 samples they can.
  EXPECT_EQ(BatchChangeText(Spec(6, 16, 1), Spec(1, 36, 1), {}),
            "the global batch was 96 (6 ranks x 16 x 1) and is now 36 (1 rank x 36 x 1); "
            "--batch-per-rank 96 keeps it");
}

TEST(GlobalBatchTest, FlagThatWasGivenIsNotNamedAgain) {
  v1::ResumeJobRequest request;
  request.set_batch_per_rank(8);
  EXPECT_EQ(BatchChangeText(Spec(2, 16, 1), Spec(2, 8, 1), request),
            "the global batch was 32 (2 ranks x 16 x 1) and is now 16 (2 ranks x 8 x 1); "
            "--accumulation-steps 2 keeps it");
  request.set_accumulation_steps(3);
  EXPECT_EQ(BatchChangeText(Spec(2, 16, 1), Spec(2, 8, 3), request),
            "the global batch was 32 (2 ranks x 16 x 1) and is now 48 (2 ranks x 8 x 3); "
            "--ranks x --batch-per-rank x --accumulation-steps = 32 keeps it");
}

}  // namespace
}  // namespace paceline
