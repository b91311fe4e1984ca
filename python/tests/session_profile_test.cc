// Profiles of a user's script, in real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"
#include "python/tests/session_fixture.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

// Until it is stopped, with steps of at least 20 ms.
constexpr char kEndless[] =
    "steps: 1000000 allow_chaos: true "
    "chaos { rank: -1 kind: SLEEP step: 0 steps: 1000000 seconds: 0.02 } ";

v1::ProfileRequest Request(int64_t id, int64_t first_step) {
  v1::ProfileRequest request;
  request.set_id(id);
  request.set_first_step(first_step);
  request.set_steps(3);
  return request;
}

class SessionProfileTest : public SessionFixture {
 protected:
  // Events whose name has this part, and this end.
  static int Count(const nlohmann::json& trace, absl::string_view part, absl::string_view end) {
    int count = 0;
    for (const auto& event : trace["traceEvents"]) {
      const std::string name = event.value("name", "");
      count += absl::StrContains(name, part) && absl::EndsWith(name, end) ? 1 : 0;
    }
    return count;
  }

  // A job with these changes is asked for a profile before its first step; checks the trace.
  void ProfileAndCheck(const std::string& changes) {
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(2, "out", changes));
    daemon->SetProfile({0}, Request(1, 5));
    WaitForSuccess(*daemon, {0, 1});
    ASSERT_TRUE(daemon->HasLastWords(0));
    const v1::ProfileResult result = daemon->LastWords(0).profile();
    EXPECT_EQ(result.error(), "");
    EXPECT_EQ(result.steps(), 3);
    std::ifstream file(result.trace());
    ASSERT_TRUE(file.good()) << result.trace();
    const nlohmann::json trace = nlohmann::json::parse(file);
    EXPECT_EQ(Count(trace, "session_script.py(", "): train"), 3) << "the script's own function";
    EXPECT_EQ(Count(trace, "nn.Module: Dropout", ""), 3);
    EXPECT_EQ(Count(trace, "ProfilerStep#", ""), 3);
    EXPECT_EQ(Count(trace, "aten::linear", ""), 6);
    for (const char* phase : {"data_wait", "forward", "backward", "optimizer"}) {
      int count = 0;
      for (const auto& event : trace["traceEvents"]) count += event.value("name", "") == phase;
      EXPECT_EQ(count, 3) << phase;
    }
  }

  // The result of a new profile on rank 0, which is asked for again if it comes too late.
  static v1::ProfileResult Profile(FakeDaemon& daemon, int64_t id) {
    for (int64_t lead = 16;; lead *= 2, ++id) {
      daemon.SetProfile({0}, Request(id, daemon.status(0).figures().step() + lead));
      if (!daemon.Serve([&] { return daemon.status(0).profile().id() == id; })) {
        ADD_FAILURE() << "no answer: " << daemon.Log(0);
        return {};
      }
      const v1::ProfileResult& result = daemon.status(0).profile();
      if (!absl::StrContains(result.error(), "came too late")) return result;
    }
  }

  void StopAll(FakeDaemon& daemon, const std::vector<int>& trainers) const {
    for (const int trainer : trainers) daemon.Stop(trainer);
    WaitForSuccess(daemon, trainers);
  }
};

TEST_F(SessionProfileTest, ATraceHasTheScriptsFunctionsAndThePhases) { ProfileAndCheck(""); }

TEST_F(SessionProfileTest, ATraceIsMadeWithSlipstreamToo) {
  for (const char* mode : {"FREE", "DROP"}) {
    SCOPED_TRACE(mode);
    ProfileAndCheck(
        absl::StrCat("steps: 60 clip_grad_norm: 1 strategy { slipstream { mode: ", "SLIPSTREAM_",
                     mode, " window { min_steps: 1 max_steps: 2 max_cap: 8 } } } "));
  }
}

TEST_F(SessionProfileTest, AProfilerOfTheScriptIsNotDisturbed) {
  setenv("HABITS", "own_profile", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(1, "out", kEndless));
  daemon->SetProfile({0}, Request(1, 5));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).profile().id() == 1; }));
  EXPECT_THAT(daemon->status(0).profile().error(),
              HasSubstr("the script's own torch.profiler is active"));
  std::ofstream(directory_ + "/out/end").close();
  v1::ProfileResult result = Profile(*daemon, 2);
  // The script may not have seen the file yet.
  while (absl::StrContains(result.error(), "is active")) result = Profile(*daemon, result.id() + 1);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.steps(), 3);
  StopAll(*daemon, {0});
  EXPECT_THAT(daemon->Log(0), HasSubstr("its own trace has "));
  EXPECT_THAT(daemon->Log(0), Not(HasSubstr("its own trace has 0 ")));
  unsetenv("HABITS");
}

TEST_F(SessionProfileTest, AProfilerThatTheScriptStartsHasPrecedence) {
  setenv("HABITS", "meets_profile", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(1, "out", ""));
  daemon->SetProfile({0}, Request(1, 5));
  WaitForSuccess(*daemon, {0});
  ASSERT_TRUE(daemon->HasLastWords(0));
  EXPECT_THAT(daemon->LastWords(0).profile().error(),
              HasSubstr("the script's own torch.profiler has begun"));
  EXPECT_THAT(daemon->Log(0), HasSubstr("its own trace has 6 linears")) << "of three steps";
  unsetenv("HABITS");
}

TEST_F(SessionProfileTest, AScriptThatFailsWhileItIsTracedEndsAsItWould) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(1, "failed", "", "forward 6 0 raise"));
  daemon->SetProfile({0}, Request(1, 5));
  WaitForEnd(*daemon, 0);
  EXPECT_EQ(daemon->exit_code(0), 1) << daemon->Log(0);
  EXPECT_EQ(daemon->LastWords(0).error().message(), "ValueError: a mistake of the script");
  EXPECT_EQ(daemon->LastWords(0).profile().error(), "the script has ended");
}

TEST_F(SessionProfileTest, AStepThatIsCutOffIsToldAndTheNextProfileIsMade) {
  setenv("HABITS", "dies_profiled", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "out", kEndless, /*at=*/"", /*spares=*/1));
  daemon->SetProfile({0, 1, 2}, Request(1, 5));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->exit_signal(1), SIGKILL) << daemon->Log(1);
  daemon->SetMembers({{0, 3, 2}});
  WaitUntilRendezvous(*daemon);
  const v1::ProfileResult result = Profile(*daemon, 2);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.steps(), 3);
  // Rank 2 was asked once.
  EXPECT_EQ(daemon->status(2).profile().id(), 1);
  EXPECT_THAT(daemon->status(2).profile().error(), HasSubstr("step 5 was cut off"));
  StopAll(*daemon, {0, 3, 2});
  unsetenv("HABITS");
}

}  // namespace
}  // namespace paceline
