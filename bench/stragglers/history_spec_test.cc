#include "bench/stragglers/history_spec.h"

#include <gtest/gtest.h>

namespace paceline::detect {
namespace {

TEST(HistorySpecTest, NothingGivenIsTheDefault) {
  const auto spec = ParseSpec("");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->ranks, 256);
  EXPECT_EQ(SpecText(*spec), "");
}

TEST(HistorySpecTest, KindsOfValues) {
  const auto spec =
      ParseSpec("ranks=64 factor=1.2,noise=student onset=0.5 step_s=1..2 workload=yes");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->ranks, 64);
  EXPECT_EQ(spec->factor, 1.2);
  EXPECT_EQ(spec->noise, Noise::kStudent);
  EXPECT_EQ(spec->onset.low, 0.5);
  EXPECT_EQ(spec->onset.high, 0.5);
  EXPECT_EQ(spec->step_s.high, 2);
  EXPECT_TRUE(spec->workload);
}

TEST(HistorySpecTest, TextIsInAFixedOrderAndComesBack) {
  const auto spec = ParseSpec("factor=1.2 ranks=64");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(SpecText(*spec), "ranks=64 factor=1.2");
  EXPECT_EQ(SpecText(*ParseSpec(SpecText(*spec))), SpecText(*spec));
}

TEST(HistorySpecTest, AllProblemsAreNamedAtOnce) {
  const auto spec = ParseSpec("rank=64 sd=two noise=white steps=1 rho=0.99 onset=0.4..0.1 on=1.5");
  ASSERT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"rank=64", "sd=two", "noise=white", "steps=1", "rho=0.99", "onset=0.4..0.1", "on=1.5"}) {
    EXPECT_NE(spec.status().message().find(part), std::string::npos) << part;
  }
}

TEST(HistorySpecTest, RanksAreSharedOutEvenly) {
  EXPECT_EQ(ParseSpec("ranks=10 stages=4").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HistorySpecTest, NanIsNoNumber) { EXPECT_FALSE(ParseSpec("sd=nan").ok()); }

TEST(HistorySpecTest, HelpNamesKeysAndWords) {
  EXPECT_NE(SpecHelp().find("transient_steps"), std::string::npos);
  EXPECT_NE(SpecHelp().find("lognormal"), std::string::npos);
}

}  // namespace
}  // namespace paceline::detect
