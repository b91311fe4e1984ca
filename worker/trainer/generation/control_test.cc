#include "worker/trainer/generation/control.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

constexpr char kNoPlan[] = "without a training plan";

class ControlTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.trainer = "worker/trainer/testing/control_probe";
    options_.directory =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.patience = absl::Seconds(20);
    std::filesystem::remove_all(options_.directory);
    std::filesystem::create_directories(options_.directory);
    daemon_ = std::make_unique<FakeDaemon>(options_);
    spec_.set_name("probe");
    spec_.set_ranks(2);
    spec_.mutable_model()->mutable_mlp();
    spec_.mutable_data()->set_train("/unread");
    spec_.set_steps(1);
    spec_.mutable_optimizer()->mutable_sgd();
    spec_.mutable_optimizer()->set_learning_rate(1);
    spec_.mutable_strategy()->mutable_local_sgd()->set_period(4);
  }

  bool ServeUntilActive(int64_t version) {
    return daemon_->Serve([&] {
      return daemon_->status(0).plan().active_version() == version &&
             daemon_->status(1).plan().active_version() == version;
    });
  }

  void LaunchWithoutCommits() {
    options_.commit_saves = false;
    daemon_ = std::make_unique<FakeDaemon>(options_);
    daemon_->Launch(spec_);
  }

  void LaunchGuests(const std::vector<std::string>& flags) {
    options_.extra_args = {"--guest", "yes"};
    for (const std::string& flag : flags) {
      options_.extra_args.push_back(flag);
      options_.extra_args.push_back("yes");
    }
    daemon_ = std::make_unique<FakeDaemon>(options_);
    daemon_->Launch(spec_);
  }

  bool ServeUntilHeardOf() {
    return daemon_->Serve([&] { return daemon_->statuses(0) > 0; });
  }
  bool ServeUntilEnded() {
    return daemon_->Serve([&] { return daemon_->ended(0); });
  }

  void Order(int64_t number, bool now) {
    v1::SaveOrder order;
    order.set_number(number);
    order.set_now(now);
    daemon_->SetSaveOrder(order);
  }

  // Steps of the saves that a rank reports.
  std::string Saves(int rank) const {
    std::string steps;
    for (const v1::SaveStatus& save : daemon_->status(rank).saves()) {
      absl::StrAppend(&steps, save.step(), " ");
    }
    return steps;
  }

  static int Count(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  v1::TrainingPlan Plan(int64_t version) { return daemon_->MakePlan(version, spec_.strategy()); }

  FakeDaemon::Options options_;
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
  EXPECT_TRUE(absl::StrContains(daemon_->Log(0), "start address=127.0.0.1:1234 version=1"));
  EXPECT_TRUE(absl::StrContains(daemon_->Log(1), "heard version=2 levels=1"));
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
  EXPECT_FALSE(absl::StrContains(daemon_->Log(0), "heard version=2"));
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

TEST_F(ControlTest, SavesAreToldUntilEightNewerOnesAre) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  LaunchWithoutCommits();
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  Order(3, /*now=*/false);
  ASSERT_TRUE(daemon_->Serve([&] { return Saves(0) == "10 20 30 "; })) << Saves(0);
  EXPECT_EQ(daemon_->status(0).saves(2).order(), 3);
  EXPECT_EQ(daemon_->status(0).saves(2).state(), v1::SAVE_DURABLE);
  // Each answer to an order without a step adds one; repeated ones do not.
  Order(4, /*now=*/true);
  ASSERT_TRUE(daemon_->Serve([&] { return Saves(0) == "10 20 30 0 "; })) << Saves(0);
  EXPECT_EQ(daemon_->status(0).saves(3).failure(), v1::SAVE_NOT_AGREED);
  Order(5, /*now=*/true);
  ASSERT_TRUE(daemon_->Serve([&] { return Saves(0) == "10 20 30 0 0 "; })) << Saves(0);
  Order(9, /*now=*/false);
  ASSERT_TRUE(daemon_->Serve([&] { return Saves(0) == "0 0 40 50 60 70 80 90 "; })) << Saves(0);
  EXPECT_EQ(daemon_->status(0).saves(1).order(), 5);
  EXPECT_EQ(daemon_->status(0).saves(7).order(), 9);
  EXPECT_EQ(daemon_->status(0).checkpoints().saves(), 9);
}

TEST_F(ControlTest, SavesThatWereLeftOutGoBeforeOthers) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  LaunchWithoutCommits();
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  Order(6, /*now=*/false);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->status(0).saves_size() == 6; }));
  for (const int64_t step : {1000, 1010, 1020, 1030}) {
    daemon_->SetCommitSteps({-step});
    ASSERT_TRUE(daemon_->Serve([&] {
      const v1::TrainerStatus& status = daemon_->status(0);
      return status.saves(status.saves_size() - 1).step() == step;
    })) << Saves(0);
  }
  EXPECT_EQ(Saves(0), "10 20 30 40 50 60 1020 1030 ");
}

TEST_F(ControlTest, WhatAllRanksHaveDurableIsListedForRankZero) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  Order(2, /*now=*/false);
  ASSERT_TRUE(daemon_->Serve([&] {
    const v1::TrainerStatus& status = daemon_->status(0);
    return status.saves_size() == 2 && status.saves(0).state() == v1::SAVE_COMMITTED &&
           status.saves(1).state() == v1::SAVE_COMMITTED;
  })) << daemon_->Log(0);
  EXPECT_EQ(daemon_->status(1).saves(0).state(), v1::SAVE_DURABLE);
}

TEST_F(ControlTest, CheckpointsAreToldAtFirstAndAfterEachChangeOnly) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  LaunchWithoutCommits();
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  daemon_->SetPlan(Plan(2));
  ASSERT_TRUE(ServeUntilActive(2)) << daemon_->Log(0);
  Order(1, /*now=*/false);
  ASSERT_TRUE(daemon_->Serve([&] { return Saves(0) == "10 "; })) << Saves(0);
  // A restarted daemon with an older order changes nothing.
  daemon_->GoAway();
  Order(0, /*now=*/false);
  daemon_->ComeBack();
  daemon_->SetPlan(Plan(3));
  ASSERT_TRUE(ServeUntilActive(3)) << daemon_->Log(0);
  EXPECT_EQ(Count(daemon_->Log(0), "checkpoints order=0 commits=0"), 1);
  EXPECT_EQ(Count(daemon_->Log(0), "checkpoints order=1 commits=0"), 1);
}

TEST_F(ControlTest, SignalOfSomebodyElseIsToldWhereWorkCanBeSaved) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->status(0).asked_to_end(); }));
  EXPECT_FALSE(daemon_->status(1).asked_to_end());
  daemon_->SetPlan(Plan(2));
  ASSERT_TRUE(ServeUntilActive(2)) << "it does not go on: " << daemon_->Log(0);
  // The order of signal and confirmation does not matter.
  daemon_->SayStopping(0);
  daemon_->Stop(1);
  ASSERT_TRUE(daemon_->Serve()) << daemon_->Log(0) << daemon_->Log(1);
  EXPECT_EQ(daemon_->exit_code(0), 0);
  EXPECT_EQ(daemon_->exit_code(1), 0);
  EXPECT_TRUE(daemon_->LastWords(0).asked_to_end());
}

TEST_F(ControlTest, WordAloneDoesNotEndIt) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  daemon_->SayStopping(0);
  daemon_->SetPlan(Plan(2));
  ASSERT_TRUE(ServeUntilActive(2)) << daemon_->Log(0);
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->ended(0); }));
  EXPECT_EQ(daemon_->exit_code(0), 0);
}

TEST_F(ControlTest, CheckpointThatCannotBeUsedIsAKindOfFailure) {
  daemon_->Launch(spec_, /*generation=*/2, /*restore_from=*/"/missing");
  ASSERT_TRUE(daemon_->Serve());
  EXPECT_EQ(daemon_->exit_code(0), 1);
  EXPECT_EQ(daemon_->LastWords(0).error().kind(), v1::FAILURE_RESTORE);
  EXPECT_EQ(daemon_->LastWords(0).error().message(), "nothing can be read at /missing");
  // The next generation is another start of the same job.
  daemon_->Launch(spec_, /*generation=*/3);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  EXPECT_EQ(daemon_->status(0).id().generation(), 3);
}

TEST_F(ControlTest, EndsWhenAskedTo) {
  daemon_->Launch(spec_);
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->Log(0);
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->ended(0); }));
  EXPECT_EQ(daemon_->exit_code(0), 0);
}

TEST_F(ControlTest, GuestWithThreadsEndsWhenAskedTo) {
  LaunchGuests({});
  ASSERT_TRUE(ServeUntilActive(1));
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_code(0), 0);
  EXPECT_EQ(daemon_->LastWords(0).state(), v1::TRAINER_RUNNING);
  EXPECT_FALSE(std::filesystem::exists(daemon_->TrainerDirectory(0) + "/log"))
      << "its output is its own";
}

TEST_F(ControlTest, GuestReportsTheSignalOfSomebodyElse) {
  spec_.mutable_checkpoint()->set_directory("/unused");
  LaunchGuests({});
  ASSERT_TRUE(ServeUntilActive(1));
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon_->Serve([&] { return daemon_->status(0).asked_to_end(); }));
  daemon_->SetPlan(Plan(2));
  ASSERT_TRUE(ServeUntilActive(2)) << "it does not go on";
  daemon_->SayStopping(0);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_code(0), 0);
}

TEST_F(ControlTest, GuestThatDoesNotTrainYetEndsAsWithoutUs) {
  LaunchGuests({"--pause"});
  ASSERT_TRUE(ServeUntilHeardOf());
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_signal(0), SIGTERM);
  EXPECT_TRUE(daemon_->HasLastWords(0));
}

TEST_F(ControlTest, FormerHandlerOfAGuestIsCalledBeforeItTrains) {
  LaunchGuests({"--pause", "--former"});
  ASSERT_TRUE(ServeUntilHeardOf());
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_code(0), 9);
  EXPECT_TRUE(daemon_->HasLastWords(0));
}

TEST_F(ControlTest, FormerHandlerOfAGuestIsBackAfterTheEnd) {
  LaunchGuests({"--former"});
  ASSERT_TRUE(ServeUntilActive(1));
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_code(0), 9);
  EXPECT_EQ(daemon_->LastWords(0).state(), v1::TRAINER_RUNNING) << "it was stopped in good order";
}

TEST_F(ControlTest, ForkedChildOfAGuestDisturbsNothing) {
#if defined(_GLIBCXX_TSAN)
  GTEST_SKIP() << "TSan keeps signals back in a fork of a process with threads";
#endif
  LaunchGuests({"--fork"});
  ASSERT_TRUE(ServeUntilActive(1)) << daemon_->exit_code(0);
  EXPECT_FALSE(daemon_->HasLastWords(0));
  EXPECT_EQ(daemon_->status(0).state(), v1::TRAINER_RUNNING);
  daemon_->Signal(0, SIGTERM);
  ASSERT_TRUE(ServeUntilEnded());
  EXPECT_EQ(daemon_->exit_code(0), 0);
}

}  // namespace
}  // namespace paceline
