// Ranks are replaced while a job runs, as its workers see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

class RecoveryTest : public ServerTest {
 protected:
  static v1::JobSpec RecoveringSpec(int ranks, int spares = 0) {
    v1::JobSpec spec = Spec(ranks);
    spec.set_steps(1000);
    spec.mutable_recovery()->set_max_failures(3);
    spec.mutable_recovery()->set_spares(spares);
    return spec;
  }
  static v1::TrainerReport Training(const v1::TrainerPlan& plan, int64_t step) {
    v1::TrainerReport report = Trainer(plan, v1::TRAINER_RUNNING);
    report.set_pid(1000 * plan.id().generation() + plan.id().rank());
    report.mutable_progress()->set_step(step);
    report.mutable_membership()->set_generation(plan.membership().generation());
    report.mutable_membership()->set_step(step);
    return report;
  }
  static std::vector<v1::TrainerReport> AllTrain(const v1::NodePlan& plan, int64_t step) {
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerPlan& trainer : plan.trainers()) {
      if (trainer.membership().rank() >= 0) reports.push_back(Training(trainer, step));
    }
    return reports;
  }
  // The same, but `rank` has died.
  static std::vector<v1::TrainerReport> WithDead(std::vector<v1::TrainerReport> reports, int rank) {
    v1::TrainerReport& dead = reports.at(static_cast<size_t>(rank));
    dead.set_state(v1::TRAINER_EXITED);
    dead.mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
    dead.mutable_exit()->set_message("killed by SIGKILL");
    return reports;
  }
  static bool AllInGeneration(const v1::NodePlan& plan, int64_t generation) {
    for (const v1::TrainerPlan& trainer : plan.trainers()) {
      if (trainer.membership().generation() != generation) return false;
    }
    return plan.trainers_size() > 0;
  }
};

TEST_F(RecoveryTest, KilledRankIsReplacedAndTheControllerMayDieMeanwhile) {
  auto worker = Join(Hello("w0", 3));
  v1::Job job;
  ASSERT_TRUE(Submit(RecoveringSpec(2), "submit", &job).ok());
  v1::NodePlan plan = worker->ReadPlan(2);
  EXPECT_TRUE(plan.trainers(0).leased());
  EXPECT_EQ(plan.trainers(1).membership().rank(), 1);
  EXPECT_EQ(plan.trainers(1).membership().generation(), 1);
  worker->Report(AllTrain(plan, 10));
  WaitFor(job.id(), v1::RUNNING);

  worker->Report(WithDead(AllTrain(plan, 11), 1));
  plan = worker->ReadUntil([](const v1::NodePlan& p) { return AllInGeneration(p, 2); });
  ASSERT_EQ(plan.trainers_size(), 2);
  EXPECT_EQ(plan.trainers(0).id().generation(), 1) << "the survivor";
  EXPECT_EQ(plan.trainers(0).membership().store_address(), "") << "the newcomer is not ready";
  EXPECT_EQ(plan.trainers(0).plan().version(), 2);
  EXPECT_EQ(plan.trainers(1).id().generation(), 2);
  EXPECT_EQ(plan.trainers(1).id().rank(), 1);
  EXPECT_EQ(plan.trainers(1).membership().rank(), 1);
  EXPECT_EQ(Get(job.id()).state(), v1::RECOVERING);

  worker.reset();
  Restart();
  v1::Hello hello = Hello("w0", 3);
  *hello.mutable_report()->add_trainers() = Training(plan.trainers(0), 11);
  hello.mutable_report()->mutable_trainers(0)->mutable_membership()->set_generation(1);
  worker = std::make_unique<PlayedWorker>(channel_, hello);
  v1::TrainerReport survivor = Training(plan.trainers(0), 11);
  survivor.mutable_membership()->set_generation(1);
  v1::TrainerReport newcomer = Trainer(plan.trainers(1), v1::TRAINER_READY);
  newcomer.set_pid(2001);
  worker->Report({survivor, newcomer});
  plan = worker->ReadUntil([](const v1::NodePlan& p) {
    return p.trainers_size() == 2 && !p.trainers(0).membership().store_address().empty();
  });
  EXPECT_TRUE(AllInGeneration(plan, 2));
  EXPECT_FALSE(plan.trainers(1).membership().store_address().empty());

  worker->Report(AllTrain(plan, 12));
  const v1::Job running = WaitFor(job.id(), v1::RUNNING);
  ASSERT_EQ(running.membership_changes_size(), 1);
  EXPECT_EQ(running.membership_changes(0).step(), 12);
  EXPECT_TRUE(running.membership_changes(0).has_end_time());
  EXPECT_EQ(running.ranks(1).started_generation(), 2);
  EXPECT_EQ(running.ranks(0).started_generation(), 1);
}

TEST_F(RecoveryTest, SpareIsStartedWithTheJobAndTakesTheRank) {
  auto worker = Join(Hello("w0", 3));
  v1::Job job;
  ASSERT_TRUE(Submit(RecoveringSpec(2, 1), "submit", &job).ok());
  v1::NodePlan plan = worker->ReadPlan(3);
  ASSERT_EQ(plan.trainers(2).id().rank(), 2);
  EXPECT_EQ(plan.trainers(2).membership().rank(), -1);
  std::vector<v1::TrainerReport> reports = AllTrain(plan, 10);
  reports.push_back(Trainer(plan.trainers(2), v1::TRAINER_READY));
  worker->Report(reports);
  WaitFor(job.id(), v1::RUNNING);
  EXPECT_EQ(Get(job.id()).spares_size(), 1);
  EXPECT_EQ(Get(job.id()).spares(0).rank(), -1);

  worker->Report(WithDead(reports, 0));
  plan = worker->ReadUntil([](const v1::NodePlan& p) { return AllInGeneration(p, 2); });
  const auto spare = std::find_if(plan.trainers().begin(), plan.trainers().end(),
                                  [](const auto& trainer) { return trainer.id().rank() == 2; });
  ASSERT_NE(spare, plan.trainers().end());
  EXPECT_EQ(spare->membership().rank(), 0);
  EXPECT_FALSE(spare->membership().store_address().empty()) << "all are ready";
  EXPECT_NE(ReadMetrics("paceline_job_membership_changes_total{cause=\"failure\"} 1"), "");
}

}  // namespace
}  // namespace paceline
