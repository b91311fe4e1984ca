#include "bench/stragglers/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace paceline::detect {
namespace {

constexpr char kHead[] = "step,dp,stage,fwd_s,bwd_s,wall_s\n";

absl::StatusOr<Trace> Read(const std::string& text) {
  std::istringstream csv(text);
  return ReadTrace(csv);
}

std::string ProblemIn(const std::string& text) {
  const auto trace = Read(text);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(trace.status().message());
}

TEST(TraceTest, RowsAreSortedAndWorkersNumbered) {
  const auto trace = Read(absl::StrCat(kHead, "7,1,4,1,2,3.5\n7,0,4,1,2,3.5\n-2,1,0,1,2,3.5\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->workers.size(), 3);
  EXPECT_EQ(trace->workers[0].stage, 0);
  EXPECT_EQ(trace->workers[1].dp, 0);
  EXPECT_EQ(trace->workers[2].dp, 1);
  EXPECT_EQ(trace->stages, (std::vector<int>{0, 4}));
  EXPECT_EQ(trace->ranks[2].peer_group, 1);
  EXPECT_NE(trace->ranks[1].node, trace->ranks[2].node);
  EXPECT_EQ(trace->rows[0].sample.step, -2);
  EXPECT_EQ(trace->rows[1].sample.rank, 2);
  EXPECT_EQ(trace->rows[1].sample.wall_s, 3.5);
}

TEST(TraceTest, ColumnsAreFoundByTheirNames) {
  const auto trace = Read(
      "node, wall_s,bwd_s,fwd_s,stage,dp,step,other,workload,data_wait_s,masked\r\n"
      "# a comment\r\n\r\n"
      "a,9,2,1,0,0,5.0,x,0.5,0.25,1\r\n"
      "a,9,2,1,0,1,5,x,,,\r\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const StepSample& sample = trace->rows[0].sample;
  EXPECT_EQ(sample.step, 5);
  EXPECT_EQ(sample.forward_s, 1);
  EXPECT_EQ(sample.backward_s, 2);
  EXPECT_EQ(sample.workload, 0.5);
  EXPECT_EQ(sample.data_wait_s, 0.25);
  EXPECT_TRUE(sample.masked);
  EXPECT_EQ(trace->rows[1].sample.workload, 0);
  EXPECT_EQ(trace->ranks[0].node, trace->ranks[1].node);
  EXPECT_EQ(trace->workers[1].node, "a");
}

TEST(TraceTest, DurationsMayBeNonsense) {
  const auto trace = Read(absl::StrCat(kHead, "1,0,0,-1,nan,1e9\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(std::isnan(trace->rows[0].sample.backward_s));
}

TEST(TraceTest, GenerationsComeBeforeSteps) {
  const auto trace =
      Read("step,dp,stage,fwd_s,bwd_s,wall_s,generation\n1,0,0,1,1,1,2\n9,0,0,1,1,1,1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rows[0].sample.step, 9);
}

TEST(TraceTest, ProblemsHaveLineAndColumn) {
  EXPECT_EQ(ProblemIn("step,dp,stage,fwd_s,bwd_s\n"),
            "line 1, column wall_s: is missing in the head of the table");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,1,1\n1,0,0,x,1,\n")),
            "line 3, column fwd_s: \"x\" is no number\nline 3, column wall_s: \"\" is no number");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1.5,-1,0,1,1,1\n")).substr(0, 40),
            "line 2, column step: \"1.5\" is no whole n");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,1\n")), "line 2: 5 cells, but the head has 6");
  EXPECT_EQ(ProblemIn(kHead), "no row of data");
  EXPECT_EQ(ProblemIn(""), "no row of data");
  EXPECT_EQ(ProblemIn("step,step,dp,stage,fwd_s,bwd_s,wall_s\n"),
            "line 1, column step: is there twice");
}

TEST(TraceTest, AWorkerIsOnOneNode) {
  EXPECT_EQ(ProblemIn("step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,1,1,1,a\n2,0,0,1,1,1,b\n"),
            "line 3, column node: worker dp 0, stage 0 is on \"b\", in line 2 on \"a\"");
}

TEST(TraceTest, OnlyTheFirstProblemsAreTold) {
  std::string text = kHead;
  for (int i = 0; i < 100; ++i) text += "x,0,0,1,1,1\n";
  EXPECT_LT(ProblemIn(text).size(), 1000);
}

TEST(TraceTest, AGeneratedHistoryIsATrace) {
  const auto spec = ParseSpec("ranks=8 ranks_per_node=2 stages=2 steps=60 restarts=1 missing=0.1");
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::stringstream csv;
  WriteHistory(*spec, 3, csv);
  const std::string text = csv.str();
  EXPECT_NE(text.find("# {\"labels\":{\"faults\":["), std::string::npos);
  const auto trace = ReadTrace(csv);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->workers.size(), 8);
  EXPECT_EQ(trace->stages.size(), 2);
  EXPECT_EQ(trace->rows.back().generation, 1);
  EXPECT_EQ(trace->workers[7].node, "3");
  std::stringstream again;
  WriteHistory(*spec, 3, again);
  EXPECT_EQ(text, again.str());
}

}  // namespace
}  // namespace paceline::detect
