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
  job.mutable_progress()->set_training_s(5);
  return job;
}

TEST(ProgressLineTest, EtaFollowsFromThePresentPace) {
  EXPECT_DOUBLE_EQ(SecondsToGo(Running()), 15);
  v1::Job still = Running();
  still.mutable_progress()->set_samples_per_s(0);
  EXPECT_LT(SecondsToGo(still), 0);
}

TEST(ProgressLineTest, EtaFollowsFromTheStepsOfTheRanksWhateverTheirSamples) {
  v1::Job job = Running();
  for (const int steps : {20, 40}) {  // The second one's samples are those of the first.
    v1::RankFigures& figures = *job.add_ranks()->mutable_figures();
    figures.set_steps(steps);
    figures.set_training_s(2);
    figures.set_samples_per_s(steps == 20 ? 640 : 0);
  }
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 10);
  job.mutable_ranks(1)->mutable_last_heard()->set_seconds(1);
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 15) << "what it measured is old";
}

TEST(ProgressLineTest, EtaCountsTheStepsSinceTheCheckpoint) {
  v1::Job job = Running();
  job.set_restored_from("/srv/ckpt/step-000000000040.g1");
  EXPECT_DOUBLE_EQ(SecondsToGo(job), 75);
  job.set_restored_from("/srv/ckpt/step-000000000050.g1");
  EXPECT_LT(SecondsToGo(job), 0) << "none of them is made yet";
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
  job.mutable_progress()->set_tokens_per_s(20480);
  job.mutable_evaluation()->set_loss(2);
  EXPECT_EQ(ProgressText(job), "digits RUNNING step 50/200 loss 0.5000 20480 tokens/s eta 15 s");
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
