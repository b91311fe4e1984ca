#include "worker/trainer/control.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

constexpr char kNoPlan[] = "without a training plan";

class ControlTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeDaemon::Options options;
    options.trainer = "worker/trainer/testing/control_probe";
    options.directory =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    options.patience = absl::Seconds(20);
    std::filesystem::remove_all(options.directory);
    std::filesystem::create_directories(options.directory);
    daemon_ = std::make_unique<FakeDaemon>(options);
    spec_.set_name("probe");
    spec_.set_ranks(2);
    spec_.mutable_model()->mutable_mlp();
    spec_.mutable_data()->set_train("unread");
    spec_.set_steps(1);
    spec_.mutable_optimizer()->mutable_sgd();
    spec_.mutable_optimizer()->set_learning_rate(1);
    spec_.mutable_strategy()->mutable_local_sgd()->set_period(4);
  }

  bool ServeUntilActive(int64_t epoch) {
    return daemon_->Serve([&] {
      return daemon_->status(0).plan().active_epoch() == epoch &&
             daemon_->status(1).plan().active_epoch() == epoch;
    });
  }

  v1::TrainingPlan Plan(int64_t epoch) { return daemon_->MakePlan(epoch, spec_.strategy()); }

  std::unique_ptr<FakeDaemon> daemon_;
  v1::JobSpec spec_;
};

TEST_F(ControlTest, PlanComesWithTheStartAndLaterOnesToTheListener) {
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  EXPECT_EQ(daemon_->status(0).state(), v1::TRAINER_RUNNING);
  daemon_->SetPlan(Plan(2));
  ASSERT_TRUE(ServeUntilActive(2)) << daemon_->Log(0);
  EXPECT_EQ(daemon_->status(0).plan().active_since_step(), 20);
  EXPECT_TRUE(absl::StrContains(daemon_->Log(0), "start address=127.0.0.1:1234 epoch=1"));
  EXPECT_TRUE(absl::StrContains(daemon_->Log(1), "heard epoch=2 levels=1"));
}

TEST_F(ControlTest, DaemonThatComesBackWithAnOlderPlanChangesNothing) {
  daemon_->Launch(spec_);
  daemon_->SetPlan(Plan(3));
  ASSERT_TRUE(ServeUntilActive(3)) << daemon_->Log(0);
  daemon_->GoAway();
  daemon_->SetPlan(Plan(2));
  daemon_->ComeBack();
  const int heard = daemon_->statuses(0);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->statuses(0) > heard; }));
  daemon_->SetPlan(Plan(4));
  ASSERT_TRUE(ServeUntilActive(4)) << daemon_->Log(0);
  EXPECT_FALSE(absl::StrContains(daemon_->Log(0), "heard epoch=2"));
}

TEST_F(ControlTest, AddressWithoutAPlanIsAnErrorAndNoHang) {
  daemon_->Launch(spec_);
  daemon_->SetPlan({});
  ASSERT_TRUE(daemon_->Serve());
  EXPECT_EQ(daemon_->exit_code(0), 1);
  EXPECT_EQ(daemon_->LastWords(0).error().kind(), v1::FAILURE_INPUT);
  EXPECT_TRUE(absl::StrContains(daemon_->LastWords(0).error().message(), kNoPlan));
}

TEST_F(ControlTest, OnlyTheChosenRankIsAskedForAProfile) {
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  for (const int64_t id : {1, 2}) {
    v1::ProfileRequest request;
    request.set_id(id);
    request.set_first_step(100 * id);
    request.set_steps(3);
    daemon_->SetProfile({1}, request);
    ASSERT_TRUE(daemon_->Serve([&] { return daemon_->status(1).figures().step() == id; }));
    EXPECT_EQ(daemon_->status(1).profile().id(), id);
    EXPECT_EQ(daemon_->status(1).profile().first_step(), 100 * id);
    EXPECT_EQ(daemon_->status(1).profile().steps(), 3);
  }
  EXPECT_FALSE(daemon_->status(0).has_profile());
}

TEST_F(ControlTest, EndsWhenAskedTo) {
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->ended(0); }));
  EXPECT_EQ(daemon_->exit_code(0), 0);
}

}  // namespace
}  // namespace paceline
