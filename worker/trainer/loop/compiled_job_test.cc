// Jobs with a compiled model, in real trainer processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

class CompiledJobTest : public RecoveryTest {
 protected:
  static std::string Net() {
    const auto file = std::filesystem::absolute("worker/trainer/model/testing/compiled_net.pt2");
    return absl::StrCat("model { compiled { file: '", file.string(), "' } } ");
  }
};

TEST_F(CompiledJobTest, ItTrainsAndIsEvaluated) {
  const auto daemon = RunJob(Spec(2, absl::StrCat(Net(), Evaluated(10), "steps: 60 ")));
  const std::vector<double> losses = Values(*daemon, 0, "loss");
  ASSERT_GE(losses.size(), 60u);
  EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10, losses.front());
}

TEST_F(CompiledJobTest, EachStrategyTrainsIt) {
  for (const char* strategy :
       {"ddp {}", "local_sgd { period: 4 }",
        "slipstream { mode: SLIPSTREAM_DROP window { min_steps: 1 max_steps: 2 max_cap: 8 } }"}) {
    RunJob(Spec(2, absl::StrCat(Net(), "strategy { ", strategy, " } ", ExportTo("end"))));
    EXPECT_FALSE(Exported("end", 0).empty()) << strategy;
  }
}

TEST_F(CompiledJobTest, ALostRankIsReplacedAndComputesTheSame) {
  const auto undisturbed = RunUndisturbed(2, Net());
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(2, "disturbed", Net(), /*spares=*/1));
  WaitUntilReady(*daemon, 2);
  WaitForSteps(*daemon, 0, 50);
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 2}});
  WaitForSuccess(*daemon, {0, 2});
  // The lost rank's running statistics are lost.
  ExpectSame(*undisturbed, *daemon, {0, -1}, "disturbed");
}

}  // namespace
}  // namespace paceline
