#include "cli/view/job/progress_line.h"

#include "cli/text/sanitize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Running() {
  v1::Job job;
  job.mutable_spec()->set_name("digits");
  job.mutable_spec()->set_ranks(4);
  job.mutable_spec()->set_batch_per_rank(16);
  job.mutable_spec()->set_steps(200);
  job.set_state(v1::RUNNING);
  job.mutable_progress()->set_step(50);
  job.mutable_progress()->set_loss(0.5);
  job.mutable_progress()->set_samples_per_s(640);
  return job;
}

TEST(ProgressLineTest, EtaFollowsFromThePresentPace) {
  EXPECT_DOUBLE_EQ(SecondsToGo(Running()), 15);
  v1::Job still = Running();
  still.mutable_progress()->set_samples_per_s(0);
  EXPECT_LT(SecondsToGo(still), 0);
}

TEST(ProgressLineTest, EtaCountsTheSamplesOfTheRanksThatTheJobHas) {
  v1::Job job = Running();
  for (int rank = 0; rank < 8; ++rank) job.add_ranks();
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 15) << "they share the samples of a step";
  job.mutable_spec()->mutable_recovery()->set_batch(v1::KEEP_RANK_BATCH);
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 30);
  job.clear_ranks();
  job.add_ranks();
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 3.75);
}

TEST(ProgressLineTest, WideTerminalShowsEverything) {
  v1::Job job = Running();
  job.mutable_evaluation()->set_accuracy(0.953);
  EXPECT_EQ(ProgressBar(job, 120),
            "digits  [=======>                    ]  step 50/200  loss 0.5000  640 samples/s  "
            "eta 15 s  accuracy 95.3 %");
}

TEST(ProgressLineTest, AccuracyOfStepsThatWereLostIsLeftOut) {
  v1::Job job = Running();
  job.mutable_evaluation()->set_accuracy(0.953);
  job.mutable_evaluation()->set_step(51);
  EXPECT_EQ(ProgressText(job).find("accuracy"), std::string::npos);
}

TEST(ProgressLineTest, EvaluationIsToldAndTheEtaCountsWhatIsLeftOfIt) {
  v1::Job job = Running();
  for (const int done : {400, 200, 100, 400}) {
    v1::Rank& rank = *job.add_ranks();
    rank.set_state(v1::TRAINER_RUNNING);
    rank.mutable_progress()->set_phase(v1::EVALUATING);
    rank.mutable_progress()->set_phase_s(10);
    rank.mutable_progress()->set_evaluated_batches(done);
    rank.mutable_progress()->set_evaluation_batches(400);
  }
  EXPECT_EQ(ProgressText(job),
            "digits RUNNING step 50/200 evaluating 100/400 batches loss 0.5000 640 samples/s "
            "eta 45 s");
  job.mutable_progress()->set_step(200);
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 30);
  job.clear_ranks();
  EXPECT_THAT(ProgressText(job), Not(HasSubstr("eta"))) << "it is not over in 0 s";
}

TEST(ProgressLineTest, TokensTakeThePlaceOfSamples) {
  v1::Job job = Running();
  job.mutable_spec()->set_accumulation_steps(2);
  job.mutable_progress()->set_tokens_per_s(20480);
  job.mutable_evaluation()->set_loss(2);
  EXPECT_EQ(ProgressText(job), "digits RUNNING step 50/200 loss 0.5000 20480 tokens/s eta 30 s");
}

TEST(ProgressLineTest, CheckpointAndRestartsComeLast) {
  v1::Job job = Running();
  job.mutable_checkpoints()->set_complete(1);
  job.mutable_checkpoints()->set_newest_step(40);
  job.set_restarts(2);
  EXPECT_EQ(
      ProgressText(job),
      "digits RUNNING step 50/200 loss 0.5000 640 samples/s eta 15 s checkpoint 40 restart 2");
}

TEST(ProgressLineTest, SavesThatFailComeBeforeAllButTheStep) {
  v1::Job job = Running();
  job.mutable_checkpoints()->set_last_error("disk full");
  EXPECT_THAT(ProgressText(job), HasSubstr("step 50/200 no checkpoint: saves fail loss"));
  job.mutable_checkpoints()->set_complete(1);
  job.mutable_checkpoints()->set_newest_step(40);
  EXPECT_THAT(ProgressText(job), HasSubstr("step 50/200 checkpoint 40, saves fail loss"));
  job.set_state(v1::SUCCEEDED);
  EXPECT_THAT(ProgressText(job), Not(HasSubstr("fail")));
}

TEST(ProgressLineTest, NoLineIsWiderThanTheTerminal) {
  v1::Job job = Running();
  job.mutable_evaluation()->set_accuracy(0.953);
  for (int width = 1; width <= 140; ++width) {
    EXPECT_LE(DisplayWidth(ProgressBar(job, width)), width);
  }
}

TEST(ProgressLineTest, NarrowTerminalKeepsTheBarAndTheStep) {
  EXPECT_EQ(ProgressBar(Running(), 34), "digits  [==>        ]  step 50/200");
  EXPECT_EQ(ProgressBar(Running(), 24), "digits  step 50/200");
}

TEST(ProgressLineTest, FullBarHasNoTip) {
  v1::Job job = Running();
  job.mutable_progress()->set_step(200);
  EXPECT_THAT(ProgressBar(job, 60), HasSubstr("=]  step 200/200"));
}

TEST(ProgressLineTest, BeforeTheTrainingItSaysWhatIsAwaited) {
  v1::Job job = Running();
  job.clear_progress();
  job.set_state(v1::QUEUED);
  job.set_reason("waits for 2 slots\x1b[2J");
  EXPECT_EQ(ProgressBar(job, 80), "digits  QUEUED: waits for 2 slots\\x1b[2J");
}

TEST(ProgressLineTest, TextHasTheSameFacts) {
  EXPECT_EQ(ProgressText(Running()),
            "digits RUNNING step 50/200 loss 0.5000 640 samples/s eta 15 s");
  v1::Job done = Running();
  done.set_state(v1::SUCCEEDED);
  EXPECT_THAT(ProgressText(done), Not(HasSubstr("eta")));
}

}  // namespace
}  // namespace paceline
