#include "bench/load/simulated_trainers.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

v1::NodePlan Plan(int64_t steps, const std::string& store) {
  v1::NodePlan plan;
  for (int rank = 0; rank < 2; ++rank) {
    v1::TrainerPlan& trainer = *plan.add_trainers();
    trainer.mutable_id()->set_job_id("job-1");
    trainer.mutable_id()->set_generation(1);
    trainer.mutable_id()->set_rank(rank);
    trainer.mutable_spec()->set_steps(steps);
    trainer.mutable_membership()->set_generation(1);
    trainer.mutable_membership()->set_rank(rank);
    trainer.mutable_membership()->set_store_address(store);
    trainer.mutable_plan()->set_version(3);
  }
  return plan;
}

v1::TrainerReport First(const SimulatedTrainers& trainers, absl::Time now) {
  v1::NodeReport report;
  trainers.Report(now, &report);
  return report.trainers(0);
}

TEST(SimulatedTrainersTest, TrainersRendezvousBeforeTheyTrainAndTakeUpThePlan) {
  SimulatedTrainers trainers(10);
  trainers.SetPlan(Plan(100, ""), At(0));
  EXPECT_EQ(First(trainers, At(0)).state(), v1::TRAINER_STARTING);
  EXPECT_TRUE(trainers.Advance(At(1)));
  EXPECT_EQ(First(trainers, At(1)).state(), v1::TRAINER_READY);
  EXPECT_FALSE(First(trainers, At(1)).store_address().empty());
  EXPECT_FALSE(trainers.Advance(At(2))) << "there is no store yet";
  trainers.SetPlan(Plan(100, "127.0.0.1:20000"), At(2));
  EXPECT_TRUE(trainers.Advance(At(3)));
  const v1::TrainerReport report = First(trainers, At(3));
  EXPECT_EQ(report.state(), v1::TRAINER_RUNNING);
  EXPECT_EQ(report.plan().active_version(), 3);
  EXPECT_EQ(report.membership().generation(), 1);
  EXPECT_EQ(trainers.running(), 2);
}

TEST(SimulatedTrainersTest, EachStepIsTakenOnceAndTheJobEndsAfterTheLast) {
  SimulatedTrainers trainers(10);
  trainers.SetPlan(Plan(12, "127.0.0.1:20000"), At(0));
  for (const double now : {1.0, 2.0, 3.0}) trainers.Advance(At(now));
  v1::NodeSteps steps;
  EXPECT_EQ(trainers.TakeSteps(&steps), 20) << "ten of each, one second after they began";
  ASSERT_EQ(steps.batches_size(), 2);
  EXPECT_EQ(steps.batches(1).records(9).step(), 9);
  EXPECT_EQ(trainers.TakeSteps(&steps), 0);
  EXPECT_EQ(steps.batches_size(), 0);
  EXPECT_TRUE(trainers.Advance(At(4)));
  EXPECT_EQ(First(trainers, At(4)).state(), v1::TRAINER_FINISHED);
  EXPECT_EQ(trainers.TakeSteps(&steps), 4);
  EXPECT_EQ(steps.batches(0).records(0).step(), 10);
  trainers.Advance(At(5));
  EXPECT_EQ(First(trainers, At(5)).state(), v1::TRAINER_EXITED);
}

TEST(SimulatedTrainersTest, TooManyKeptRecordsAreDroppedAndCounted) {
  SimulatedTrainers trainers(1000);
  trainers.SetPlan(Plan(1'000'000, "127.0.0.1:20000"), At(0));
  for (const double now : {1.0, 2.0, 7.0}) trainers.Advance(At(now));
  const int64_t dropped = 5000 - SimulatedTrainers::kMaxKept;
  EXPECT_EQ(trainers.TakeDropped(), 2 * dropped);
  v1::NodeSteps steps;
  EXPECT_EQ(trainers.TakeSteps(&steps), 2 * SimulatedTrainers::kMaxBatch);
  EXPECT_EQ(steps.batches(0).records(0).step(), dropped);
}

TEST(SimulatedTrainersTest, TrainerThatIsStoppedExitsAndIsForgottenWhenItIsNotListed) {
  SimulatedTrainers trainers(10);
  v1::NodePlan plan = Plan(100, "127.0.0.1:20000");
  trainers.SetPlan(plan, At(0));
  plan.mutable_trainers(0)->mutable_stop()->set_grace_s(1);
  trainers.SetPlan(plan, At(1));
  EXPECT_TRUE(trainers.Advance(At(1)));
  EXPECT_EQ(First(trainers, At(1)).state(), v1::TRAINER_EXITED);
  EXPECT_TRUE(First(trainers, At(1)).has_exit());
  trainers.SetPlan(v1::NodePlan(), At(2));
  v1::NodeReport report;
  trainers.Report(At(2), &report);
  EXPECT_EQ(report.trainers_size(), 0);
}

}  // namespace
}  // namespace paceline
