// What the daemon writes to its log, as set by its flags and by its controller.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

class LogTest : public DaemonTest {
 protected:
  v1::NodePlan PlanWith(int trainers, v1::LogLevel level) {
    std::vector<v1::TrainerPlan> plans;
    for (int rank = 0; rank < trainers; ++rank) plans.push_back(Plan(rank, 1000000));
    v1::NodePlan plan = NodePlanOf(plans);
    plan.set_log_level(level);
    return plan;
  }
  void WaitForTrainers(int count) {
    controller_->WaitForReport([count](const v1::NodeReport& report) {
      return report.trainers_size() == count && (count == 0 || AllBeyond(1)(report));
    });
  }
  size_t Logged(const std::string& event) {
    return Count(Contents(root_ + "/log"), "\"event\":\"" + event + "\"");
  }
};

TEST_F(LogTest, LevelIsTheControllersWishElseTheFlags) {
  std::vector<std::string> arguments = Arguments();
  for (const char* flag : {"--log-format", "json", "--log-level", "error"}) {
    arguments.push_back(flag);
  }
  daemon_ = Spawn(arguments, root_ + "/log");
  controller_->SetPlan(PlanWith(1, v1::LOG_LEVEL_UNSPECIFIED));
  WaitForTrainers(1);
  EXPECT_EQ(Logged("trainer_started"), 0);
  controller_->SetPlan(PlanWith(2, v1::LOG_LEVEL_INFO));
  WaitForTrainers(2);
  EXPECT_EQ(Logged("trainer_started"), 1);
  controller_->SetPlan(PlanWith(0, v1::LOG_LEVEL_UNSPECIFIED));
  WaitForTrainers(0);
  EXPECT_EQ(Logged("trainer_ended"), 0);
}

}  // namespace
}  // namespace paceline
