#include "worker/daemon/checks/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "common/event_loop.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr char kGemm[] = R"({"name":"gemm","value":50.5,"unit":"GFLOP/s","more_is_better":true})";

ProgramEnd Said(const std::string& out, int exit_code = 0) { return {exit_code, false, out, ""}; }

TEST(ToCheckResultTest, TakesMeasurementsAndWhatCouldNotBeMeasured) {
  const v1::NodeCheckResult result =
      ToCheckResult(Said(std::string(kGemm) + "\n{\"error\":\"no disk\"}\n"), 0);
  ASSERT_EQ(result.measurements_size(), 1);
  EXPECT_EQ(result.measurements(0).name(), "gemm");
  EXPECT_EQ(result.measurements(0).value(), 50.5);
  EXPECT_EQ(result.measurements(0).unit(), "GFLOP/s");
  EXPECT_TRUE(result.measurements(0).more_is_better());
  EXPECT_EQ(result.error(), "no disk");
}

TEST(ToCheckResultTest, TellsOfTrainersBesideIt) {
  const v1::NodeCheckResult result = ToCheckResult(Said(kGemm), 3);
  ASSERT_EQ(result.measurements_size(), 2);
  EXPECT_EQ(result.measurements(1).name(), "trainers_beside");
  EXPECT_EQ(result.measurements(1).value(), 3);
}

TEST(ToCheckResultTest, WhatCameBeforeItsTimeWasOverCounts) {
  ProgramEnd end = Said(std::string(kGemm) + "\n{\"name\":\"disk");
  end.timed_out = true;
  const v1::NodeCheckResult result = ToCheckResult(end, 0);
  EXPECT_EQ(result.measurements_size(), 1);
  EXPECT_THAT(result.error(), HasSubstr("too long"));
}

TEST(ToCheckResultTest, FailuresOfTheProbeAreTold) {
  EXPECT_THAT(ToCheckResult(absl::NotFoundError("cannot start x"), 0).error(),
              HasSubstr("start x"));
  ProgramEnd end = Said("", 1);
  end.err = "what it said\nmore";
  EXPECT_EQ(ToCheckResult(end, 0).error(), "the probe exited with code 1; what it said");
  for (const char* text : {"words", "{}", R"({"name":1})", R"({"name":"x","value":"1"})"}) {
    const v1::NodeCheckResult result = ToCheckResult(Said(text), 0);
    EXPECT_THAT(result.error(), HasSubstr("not understood"));
    EXPECT_EQ(result.measurements_size(), 0);
  }
}

class NodeCheckTest : public ::testing::Test {
 protected:
  // Returns the path of a probe that reports its arguments as an error.
  std::string Probe() {
    const std::string path = ::testing::TempDir() + "/probe.sh";
    std::ofstream(path) << "#!/bin/sh\necho \"{\\\"error\\\":\\\"$*\\\"}\"\n";
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    return path;
  }
  static v1::NodeCheckRequest Request(int64_t id, const std::string& peer = "") {
    v1::NodeCheckRequest request;
    request.set_id(id);
    request.set_peer_address(peer);
    return request;
  }

  EventLoop loop_;
  SideThreads threads_{loop_};
  int results_ = 0;
  NodeCheck check_{{Probe(), "/state", {}, absl::Seconds(20)},
                   threads_,
                   [] { return 0; },
                   [this] {
                     ++results_;
                     loop_.Stop();
                   }};
};

TEST_F(NodeCheckTest, RunsWhatIsWantedOnce) {
  loop_.Post([&] {
    check_.SetWanted(Request(1, "b:1"));
    check_.SetWanted(Request(1, "b:1"));
  });
  loop_.Run();  // Until there is a result.
  ASSERT_TRUE(check_.Result().has_value());
  EXPECT_EQ(check_.Result()->id(), 1);
  EXPECT_GT(check_.Result()->time().seconds(), 0);
  EXPECT_EQ(check_.Result()->error(), "--dir /state --peer b:1");
  check_.SetWanted(Request(1, "b:1"));
  EXPECT_TRUE(check_.Result().has_value()) << "not run again";
  check_.SetWanted(std::nullopt);
  EXPECT_FALSE(check_.Result().has_value());
}

TEST_F(NodeCheckTest, NewerOneRunsAfterTheOneThatRuns) {
  loop_.Post([&] {
    check_.SetWanted(Request(1));
    check_.SetWanted(Request(2));
  });
  loop_.Run();  // Until there is a result.
  EXPECT_EQ(results_, 1) << "nobody asks for the first any more";
  EXPECT_EQ(check_.Result()->id(), 2);
}

}  // namespace
}  // namespace paceline
