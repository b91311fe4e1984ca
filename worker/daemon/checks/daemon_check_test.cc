// A daemon measures its node with the real probe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

using ::testing::IsSupersetOf;

class CheckTest : public DaemonTest {
 protected:
  // Starts a daemon whose probe is quick.
  void StartQuickDaemon() {
    const std::string probe = root_ + "/probe";
    std::ofstream(probe)
        << "#!/bin/sh\nexec "
        << std::filesystem::absolute("worker/trainer/check/paceline-probe").string()
        << " --quick \"$@\"\n";
    EXPECT_EQ(::chmod(probe.c_str(), 0700), 0);
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.end(), {"--probe", probe});
    daemon_ = Spawn(arguments, root_ + "/log");
  }
};

std::function<bool(const v1::NodeReport&)> Checked(int64_t id) {
  return [id](const v1::NodeReport& report) { return report.check().id() == id; };
}

TEST_F(CheckTest, MeasuresTheNodeBesideItsTrainers) {
  StartQuickDaemon();
  v1::NodePlan plan = NodePlanOf({Plan(0, 1000000)});
  controller_->SetPlan(plan);
  controller_->WaitForReport(AllBeyond(1));
  plan.mutable_check()->set_id(1);
  controller_->SetPlan(plan);
  const v1::NodeCheckResult result = controller_->WaitForReport(Checked(1)).check();
  EXPECT_EQ(result.error(), "");
  std::set<std::string> names;
  for (const v1::NodeMeasurement& measurement : result.measurements()) {
    names.insert(measurement.name());
    EXPECT_GT(measurement.value(), 0) << measurement.name();
  }
  EXPECT_THAT(names, IsSupersetOf({"gemm", "memory_bandwidth", "disk_write", "disk_read",
                                   "loopback_latency", "loopback_bandwidth", "trainers_beside"}));
  // The probe has left nothing behind, and the result is no longer reported once nobody asks.
  EXPECT_TRUE(Eventually([&] {
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/state")) {
      if (entry.path().filename().string().rfind("probe", 0) == 0) return false;
    }
    return true;
  }));
  plan.clear_check();
  controller_->SetPlan(plan);
  controller_->WaitForReport([](const v1::NodeReport& report) { return !report.has_check(); });
}

TEST_F(CheckTest, MeasuresTheNetworkToWhereADaemonLetsItBeMeasured) {
  StartQuickDaemon();
  v1::NodePlan plan;
  plan.mutable_check()->set_id(1);
  plan.mutable_check()->set_peer_address(controller_->WaitForHello().probe_address());
  controller_->SetPlan(plan);
  const v1::NodeCheckResult result = controller_->WaitForReport(Checked(1)).check();
  EXPECT_EQ(result.error(), "");
  ASSERT_GT(result.measurements_size(), 1);
  EXPECT_EQ(result.measurements(0).name(), "pair_latency");
  EXPECT_EQ(result.measurements(1).name(), "pair_bandwidth");
}

TEST_F(CheckTest, ProbeThatCannotBeStartedIsTold) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--probe", "/nonexistent/probe"});
  daemon_ = Spawn(arguments, root_ + "/log");
  v1::NodePlan plan;
  plan.mutable_check()->set_id(1);
  controller_->SetPlan(plan);
  const v1::NodeReport report = controller_->WaitForReport(Checked(1));
  EXPECT_THAT(report.check().error(), ::testing::HasSubstr("/nonexistent/probe"));
}

}  // namespace
}  // namespace paceline
