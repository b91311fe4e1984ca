#include "controller/core/stragglers/job/job_trials.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

// Steps in a block.
constexpr int64_t kBlock = 32;

// A synchronous job with rank 0 on a and rank 1 on b.
class JobTrialsTest : public ::testing::Test {
 protected:
  // Adds a block of steps with these times; the job takes a fifth more than the slower rank.
  std::optional<ComparedSteps> AddBlock(float first_s, float second_s) {
    std::optional<ComparedSteps> compared;
    for (int64_t end = step_ + kBlock; step_ < end; ++step_) {
      StepRow row;
      row.step = step_;
      row.own_s = {first_s, second_s};
      row.total_s = 1.2 * std::max(first_s, second_s);
      compared = trials_.Add(row, job_, {}, 0);
    }
    return compared;
  }

  static RemedyDecision Swap() {
    RemedyDecision done;
    done.kind = RemedyKind::kHotSwap;
    done.verdict.slowdown = 1.5;
    return done;
  }

  Job job_ = RunningJob();
  JobTrials trials_;
  int64_t step_ = 0;
};

TEST_F(JobTrialsTest, SwapIsComparedWithTheRankAsSlowAsItWas) {
  EXPECT_FALSE(AddBlock(1, 1.5).has_value()) << "of nothing";
  trials_.Restart();
  trials_.Begin(Swap(), {1}, job_);
  const auto compared = AddBlock(1, 1);
  ASSERT_TRUE(compared.has_value());
  EXPECT_NEAR(compared->with_s, kBlock * 1.2, 1e-4);
  EXPECT_NEAR(compared->without_s, kBlock * 1.8, 1e-4) << "with the overhead from before";
}

TEST_F(JobTrialsTest, LadderIsComparedWithTheFormer) {
  RemedyDecision done;
  done.kind = RemedyKind::kLadder;
  job_.plan.ladder = {{2, LadderScope::kAll, 0}};
  trials_.Begin(done, {}, job_);
  const auto compared = AddBlock(1, 1.5);
  ASSERT_TRUE(compared.has_value());
  EXPECT_NEAR(compared->without_s, kBlock * 1.5, 1e-4) << "synchronous";
}

TEST_F(JobTrialsTest, NothingIsComparedWhereNothingCanBe) {
  RemedyDecision undo = Swap();
  undo.undoes = 1;
  trials_.Begin(undo, {1}, job_);
  EXPECT_FALSE(AddBlock(1, 1).has_value());
  trials_.Begin(Swap(), {}, job_);
  EXPECT_FALSE(AddBlock(1, 1).has_value()) << "nobody knows who was replaced";
  trials_.Begin(Swap(), {1}, job_);
  trials_.Restart();
  EXPECT_FALSE(AddBlock(1, 1).has_value());
  job_.request.ranks = 3;
  trials_.Begin(Swap(), {1}, job_);
  EXPECT_FALSE(AddBlock(1, 1).has_value()) << "it has shrunk";
}

}  // namespace
}  // namespace paceline
