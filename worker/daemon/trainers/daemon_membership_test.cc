// Memberships pass down and states pass up at once, also of suspended and killed trainers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Regular reports would hide a late one, so they are rare.
constexpr absl::Duration kRarely = absl::Seconds(20);
// Sooner than the next report, even on a busy machine. bench/recovery.py measures how fast it is.
constexpr absl::Duration kAtOnce = absl::Seconds(5);

v1::TrainerPlan Member(int64_t generation, int rank) {
  v1::TrainerPlan plan = Plan(2, 1000000);
  plan.mutable_membership()->set_generation(generation);
  plan.mutable_membership()->set_rank(rank);
  plan.mutable_membership()->set_world_size(4);
  return plan;
}

std::function<bool(const v1::NodeReport&)> In(int64_t generation, bool waiting) {
  return [=](const v1::NodeReport& report) {
    return report.trainers_size() > 0 &&
           report.trainers(0).membership().generation() == generation &&
           report.trainers(0).membership().waiting() == waiting;
  };
}

TEST_F(DaemonTest, MembershipsPassDownAndTheirStatusUpAtOnce) {
  controller_->SetReportInterval(kRarely);
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Member(1, 2)}));
  controller_->WaitForReport(In(1, false));
  for (const auto& [generation, rank] : {std::pair(2, 1), std::pair(3, -1), std::pair(4, 0)}) {
    const absl::Time asked = absl::Now();
    controller_->SetPlan(NodePlanOf({Member(generation, rank)}));
    const v1::NodeReport report = controller_->WaitForReport(In(generation, rank < 0));
    EXPECT_LT(absl::Now() - asked, kAtOnce) << generation;
    EXPECT_EQ(report.trainers(0).id().generation(), 1);
    EXPECT_EQ(report.trainers(0).id().rank(), 2);
    EXPECT_GT(report.trainers(0).membership().step(), 0);
  }
}

TEST_F(DaemonTest, MembershipOutlivesTheDaemon) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Member(3, 1)}));
  controller_->WaitForReport(In(3, false));
  End(SIGKILL);
  // No controller: the trainer's command comes from what the daemon kept.
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_);
  StartDaemon();
  EXPECT_TRUE(In(3, false)(controller_->WaitForHello().report()));
  WaitForLog("trainer_adopted trainer=job-0123456789ab.1.2 generation=3 rank=1");
}

TEST_F(DaemonTest, MetricsNameTheRankOfTheMembership) {
  StartDaemon();
  httplib::Client client("http://" + controller_->WaitForHello().metrics_address());
  const auto shown = [&](const std::string& rank) {
    const auto answer = client.Get("/metrics");
    return answer ? Count(answer->body, absl::StrCat("rank=\"", rank, "\"")) : 0;
  };
  controller_->SetPlan(NodePlanOf({Member(1, 2)}));
  EXPECT_TRUE(Eventually([&] { return shown("2") > 5; }));
  controller_->SetPlan(NodePlanOf({Member(2, 1)}));
  EXPECT_TRUE(Eventually([&] { return shown("1") > 5 && shown("2") == 0; }));
  // Spares do not train.
  controller_->SetPlan(NodePlanOf({Member(3, -1)}));
  EXPECT_TRUE(Eventually([&] { return shown("1") == 0 && shown("-1") == 0; }));
}

TEST_F(DaemonTest, SuspendedTrainerIsReportedAtOnce) {
  controller_->SetReportInterval(kRarely);
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Member(1, 0)}));
  const v1::NodeReport running = controller_->WaitForReport([](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) && report.trainers(0).pid() > 0;
  });
  const auto pid = static_cast<pid_t>(running.trainers(0).pid());
  for (const bool suspended : {true, false}) {
    const absl::Time now = absl::Now();
    ::kill(pid, suspended ? SIGSTOP : SIGCONT);
    controller_->WaitForReport([suspended](const v1::NodeReport& report) {
      return report.trainers(0).suspended() == suspended;
    });
    EXPECT_LT(absl::Now() - now, kAtOnce);
  }
}

TEST_F(DaemonTest, StacksAreSavedWhenTheyAreWanted) {
  controller_->SetReportInterval(kRarely);
  StartDaemon();
  v1::TrainerPlan plan = Member(1, 0);
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::NodeReport running = controller_->WaitForReport([](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) && report.trainers(0).pid() > 0;
  });
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGSTOP);
  controller_->WaitForReport([](const auto& report) { return report.trainers(0).suspended(); });
  plan.set_save_stacks(true);
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::TrainerReport saved = controller_
                                      ->WaitForReport([](const auto& report) {
                                        return !report.trainers(0).stacks_file().empty();
                                      })
                                      .trainers(0);
  EXPECT_EQ(saved.stacks_file(), TrainerDir(2) + "/stacks.txt");
  EXPECT_TRUE(saved.suspended());
  EXPECT_THAT(Contents(saved.stacks_file()), HasSubstr("fake_trainer"));
  // The path is still reported after the trainer's end.
  plan.mutable_stop();
  EXPECT_EQ(RunOne(plan).stacks_file(), saved.stacks_file());
}

// Collects many times, since another process may hold the processor during any of them.
struct Times {
  void Add(absl::Duration time) { sorted.insert(time); }
  absl::Duration Best() const { return *sorted.begin(); }
  std::string Text() const {
    return absl::StrCat("best ", absl::FormatDuration(Best()), ", median ",
                        absl::FormatDuration(*std::next(sorted.begin(), sorted.size() / 2)));
  }
  std::multiset<absl::Duration> sorted;
};

TEST_F(DaemonTest, MembershipThereAndBackTakesAMillisecond) {
  controller_->SetReportInterval(kRarely);
  StartDaemon();
  Times times;
  for (int64_t generation = 1; generation <= 30; ++generation) {
    const v1::NodePlan plan = NodePlanOf({Member(generation, 0)});
    const absl::Time asked = absl::Now();
    controller_->SetPlan(plan);
    controller_->WaitForReport(In(generation, false));
    if (generation > 1) times.Add(absl::Now() - asked);
  }
  EXPECT_LT(times.Best(), absl::Milliseconds(5)) << times.Text();
  RecordProperty("times", times.Text());
}

TEST_F(DaemonTest, KilledTrainerIsReportedWithinMilliseconds) {
  controller_->SetReportInterval(kRarely);
  StartDaemon();
  Times times;
  for (int64_t generation = 1; generation <= 10; ++generation) {
    v1::TrainerPlan plan = Member(generation, 0);
    plan.mutable_id()->set_generation(generation);
    controller_->SetPlan(NodePlanOf({plan}));
    const v1::NodeReport running = controller_->WaitForReport([&](const v1::NodeReport& report) {
      return report.trainers_size() == 1 && report.trainers(0).id().generation() == generation &&
             report.trainers(0).pid() > 0 && In(generation, false)(report);
    });
    const absl::Time killed = absl::Now();
    ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGKILL);
    controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
    times.Add(absl::Now() - killed);
  }
  EXPECT_LT(times.Best(), absl::Milliseconds(8)) << times.Text();
  RecordProperty("times", times.Text());
}

}  // namespace
}  // namespace paceline
