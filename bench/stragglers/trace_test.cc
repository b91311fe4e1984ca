#include "bench/stragglers/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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
  EXPECT_EQ(trace->generations.at(0).ranks.at(2).peer_group, 1);
  EXPECT_NE(trace->generations[0].ranks[1].node, trace->generations[0].ranks[2].node);
  EXPECT_EQ(trace->rows[0].step, -2);
  EXPECT_EQ(trace->rows[1].worker, 1);
  EXPECT_EQ(trace->rows[2].worker, 2);
  EXPECT_EQ(trace->rows[2].wall_s, 3.5);
}

TEST(TraceTest, ColumnsAreFoundByTheirNames) {
  const auto trace = Read(
      "node, wall_s,bwd_s,fwd_s,stage,dp,step,other,workload,data_wait_s,masked\r\n"
      "# a comment\r\n\r\n"
      "a,9,2,1,0,0,5.0,x,0.5,0.25,1\r\n"
      "a,9,2,1,0,1,5,x,,,\r\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const TraceRow& row = trace->rows[0];
  EXPECT_EQ(row.step, 5);
  EXPECT_EQ(row.forward_s, 1);
  EXPECT_EQ(row.backward_s, 2);
  EXPECT_EQ(row.workload, 0.5);
  EXPECT_EQ(row.data_wait_s, 0.25);
  EXPECT_TRUE(row.masked);
  EXPECT_EQ(trace->rows[1].workload, 0);
  EXPECT_EQ(trace->generations[0].ranks[0].node, trace->generations[0].ranks[1].node);
  EXPECT_EQ(trace->nodes, std::vector<std::string>{"a"});
  EXPECT_EQ(trace->passed_over, std::vector<std::string>{"other"});
  EXPECT_FALSE(trace->names_generations);
}

TEST(TraceTest, DurationsMayBeNonsense) {
  const auto trace = Read(absl::StrCat(kHead, "1,0,0,-1,nan,1e9\n1,1,0,1e300,1,-inf\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rows[0].forward_s, -1);
  EXPECT_TRUE(std::isnan(trace->rows[0].backward_s));
  EXPECT_TRUE(std::isinf(trace->rows[1].forward_s));
}

TEST(TraceTest, WhatIsNotKnownIsCountedAndNoNumber) {
  const auto trace = Read(
      "step,dp,stage,fwd_s,bwd_s,wall_s,data_wait_s,workload,node,masked,generation\n"
      "1,0,0,,1,NA,null,nan,NA,,\n"
      "1,1,0,2,NaN,None,0.5,<NA>,null,NA,null\n"
      "2,0,0,1,1,1,0,1,b,False,0\n"
      "2,1,0,1,1,1,,1,n/a,TRUE,0.0\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rows.size(), 4);
  EXPECT_TRUE(std::isnan(trace->rows[0].forward_s));
  EXPECT_TRUE(std::isnan(trace->rows[0].data_wait_s));
  EXPECT_EQ(trace->rows[0].wall_s, 0);
  EXPECT_EQ(trace->rows[0].workload, 0);
  EXPECT_TRUE(std::isnan(trace->rows[1].backward_s));
  EXPECT_EQ(trace->rows[2].data_wait_s, 0) << "that is known";
  EXPECT_FALSE(trace->rows[2].masked);
  EXPECT_TRUE(trace->rows[3].masked);
  EXPECT_EQ(trace->unknown,
            (std::map<std::string, int64_t>{
                {"fwd_s", 1}, {"bwd_s", 1}, {"wall_s", 2}, {"data_wait_s", 2}, {"workload", 2}}));
  EXPECT_EQ(trace->generations.size(), 1);
}

TEST(TraceTest, AColumnThatNobodyFillsIsNotKnown) {
  auto trace = Read(absl::StrCat(kHead, "1,0,0,1,0,1\n1,1,0,1,0.0,1\n1,2,0,1,,1\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_FALSE(trace->knows_backward);
  for (const TraceRow& row : trace->rows) {
    EXPECT_TRUE(std::isnan(row.backward_s));
    EXPECT_EQ(ComputeOf(row, *trace), 1);
    EXPECT_TRUE(std::isnan(row.data_wait_s));
  }
  trace = Read(absl::StrCat(kHead, "1,0,0,1,0,1\n1,1,0,1,0.5,1\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->rows[0].backward_s, 0);
  EXPECT_EQ(ComputeOf(trace->rows[1], *trace), 1.5);
  trace = Read(absl::StrCat(kHead, "1,0,0,NA,2,1\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(ComputeOf(trace->rows[0], *trace), 2);
}

TEST(TraceTest, AWorkerWithoutANodeIsOnItsOwn) {
  const auto trace = Read(
      "step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,1,1,1,\n1,1,0,1,1,1,NA\n1,2,0,1,1,1,a\n"
      "1,3,0,1,1,1,\n2,3,0,1,1,1,a\n3,3,0,1,1,1,\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const std::vector<DetectorRank>& ranks = trace->generations[0].ranks;
  EXPECT_NE(ranks[0].node, ranks[1].node);
  EXPECT_NE(ranks[0].node, ranks[2].node);
  EXPECT_NE(ranks[1].node, ranks[2].node);
  EXPECT_EQ(ranks[2].node, ranks[3].node) << "named once";
  EXPECT_EQ(trace->nodes, std::vector<std::string>{"a"});
}

TEST(TraceTest, EachGenerationHasItsWorkersAndNodes) {
  const auto trace = Read(
      "step,dp,stage,fwd_s,bwd_s,wall_s,node,generation\n"
      "1,0,0,1,1,1,b,7\n1,1,0,1,1,1,c,7\n"
      "9,0,0,1,1,1,a,3\n9,1,0,1,1,1,c,3\n9,2,0,1,1,1,b,3\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->generations.size(), 2);
  EXPECT_TRUE(trace->names_generations);
  EXPECT_EQ(trace->generations[0].number, 3);
  EXPECT_EQ(trace->generations[0].workers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(trace->generations[1].workers, (std::vector<int>{0, 1}));
  EXPECT_EQ(trace->generations[1].ranks[0].node, trace->generations[0].ranks[2].node);
  EXPECT_EQ(trace->generations[1].ranks[1].node, trace->generations[0].ranks[1].node);
  EXPECT_NE(trace->generations[1].ranks[0].node, trace->generations[0].ranks[0].node);
  EXPECT_EQ(trace->rows[0].step, 9);
  EXPECT_EQ(trace->rows[4].generation, 1);
}

TEST(TraceTest, WithinAGenerationAWorkerIsOnOneNode) {
  EXPECT_EQ(ProblemIn("step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,1,1,1,a\n2,0,0,1,1,1,b\n"),
            "line 3, column node: this worker is on \"b\", but in line 2, of the same generation, "
            "on \"a\"; tell a restart by another number in a column generation");
}

TEST(TraceTest, StepsAreWhateverTheFileSays) {
  auto trace = Read(absl::StrCat(kHead, "17.0,0,0,1,1,1\n1.7e18,0,0,1,1,1\n",
                                 "1700000000000000001,0,0,1,1,1\n+5,0,0,1,1,1\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(trace->steps.empty());
  EXPECT_EQ(trace->rows[0].step, 5);
  EXPECT_EQ(trace->rows[1].step, 17);
  EXPECT_EQ(trace->rows[2].step, 1700000000000000000);
  EXPECT_EQ(trace->rows[3].step, 1700000000000000001);
  trace = Read(absl::StrCat(kHead, "17,0,0,1,1,1\n0.5,0,0,1,1,1\n1e30,0,0,1,1,1\n-3,0,0,1,1,1\n",
                            "0.5,1,0,1,1,1\n"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->steps, (std::vector<double>{-3, 0.5, 17, 1e30}));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(trace->rows[i + 1].step, 1);
  EXPECT_EQ(trace->rows[4].step, 3);
  for (const char* step : {"", "inf", "NaN", "x"}) {
    EXPECT_EQ(ProblemIn(absl::StrCat(kHead, step, ",0,0,1,1,1\n")).substr(0, 20),
              "line 2, column step:")
        << step;
  }
}

TEST(TraceTest, FilesAreWrittenInManyWays) {
  for (const char* text : {
           // R.
           "\"\",\"step\",\"dp\",\"stage\",\"fwd_s\",\"bwd_s\",\"wall_s\",\"node\"\n"
           "\"1\",1,0,0,0.5,1,2,\"a\"\n\"2\",1,1,0,0.5,1,2,\"b, \"\"c\"\"\"\n",
           // A spreadsheet where decimals have a comma.
           "\xef\xbb\xbfStep;DP;Stage;Fwd_s;BWD_S;Wall_S;Node\r\n1;0;0;0,5;1;2;a\r\n"
           "1;1;0;0,5;1;2;b, \"\"c\"\"\r\n",
           // Tabs; the last cell is empty.
           "step\tdp\tstage\tfwd_s\tbwd_s\twall_s\tnode\n1\t0\t0\t0.5\t1\t2\ta\n"
           "1\t1\t0\t0.5\t1\t2\t\n",
           // NumPy.
           "# a job\n# step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,5e-1,1,2,a\n"
           "1.0,1.0,0.0,.5,1,2,b\n",
           // Commas at the ends of lines.
           "step,dp,stage,fwd_s,bwd_s,wall_s,node,\n1,0,0,0.5,1,2,a,\n1,1,0,0.5,1,2,b\n",
           "step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,0.5,1,2,a,\n1,1,0,0.5,1,2,b,,\n",
           // Several files in one; the columns of the second are in another order.
           "step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,0.5,1,2,a\n"
           "\xef\xbb\xbf"
           "node,wall_s,bwd_s,fwd_s,stage,dp,step\nb,2,1,0.5,0,1,1\n",
           // Cut off.
           "step,dp,stage,fwd_s,bwd_s,wall_s,node\n1,0,0,0.5,1,2,a\n1,1,0,0.5,1,2,b\n2,0,0,0.",
       }) {
    const auto trace = Read(text);
    ASSERT_TRUE(trace.ok()) << trace.status() << "\n" << text;
    ASSERT_EQ(trace->rows.size(), 2) << text;
    for (const TraceRow& row : trace->rows) {
      EXPECT_EQ(row.step, 1) << text;
      EXPECT_EQ(row.forward_s, 0.5) << text;
      EXPECT_EQ(row.wall_s, 2) << text;
    }
    ASSERT_FALSE(trace->nodes.empty());
    EXPECT_EQ(trace->nodes[0], "a") << text;
    EXPECT_EQ(trace->rows[1].worker, 1) << text;
    EXPECT_EQ(trace->cut_off, absl::string_view(text).back() == '.') << text;
  }
}

TEST(TraceTest, ProblemsHaveLineAndColumn) {
  EXPECT_EQ(ProblemIn("step,dp,stage,bwd_s\n1,1,1,1\n"),
            "line 1: the head of the table lacks fwd_s, wall_s; it is \"step,dp,stage,bwd_s\"");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,1,1\n1,0,0,x,1,2s\n")),
            "line 3, column fwd_s: \"x\" is no number\n"
            "line 3, column wall_s: \"2s\" is no number");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,-1,0.5,1,1,1\n")).substr(0, 26),
            "line 2, column dp: \"-1\" is");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,1\n1,0,0,1,1,1\n")),
            "line 2: 5 cells, but the head has 6");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,1,1,7\n")),
            "line 2: 7 cells, but the head has 6");
  EXPECT_EQ(ProblemIn(absl::StrCat(kHead, "1,0,0,1,\"1,1\n")),
            "line 2: a quote is not closed, or text follows it");
  EXPECT_EQ(ProblemIn("step,dp,stage,fwd_s,bwd_s,wall_s,masked\n1,0,0,1,1,1,maybe\n"),
            "line 2, column masked: \"maybe\" is neither 0 nor 1");
  EXPECT_EQ(ProblemIn("step,step,dp,stage,fwd_s,bwd_s,wall_s\n1,1,0,0,1,1,1\n"),
            "line 1, column step: is there twice");
}

TEST(TraceTest, WhatIsNoTraceIsCalledWhatItIs) {
  EXPECT_EQ(ProblemIn(""), "is empty");
  EXPECT_EQ(ProblemIn("\n\n"), "no row of data");
  EXPECT_EQ(ProblemIn(kHead), "no row of data");
  EXPECT_EQ(ProblemIn("1,0,0,1,1,1\n2,0,0,1,1,1\n"),
            "line 1: the head of the table lacks step, dp, stage, fwd_s, bwd_s, wall_s; it is "
            "\"1,0,0,1,1,1\"");
  EXPECT_EQ(ProblemIn("\x1f\x8b\x08\x01\n\x02"), "line 1: this is gzip: unpack it first");
  EXPECT_EQ(ProblemIn(std::string("\xff\xfes\0t\0", 6)),
            "line 1: this is UTF-16: write it as UTF-8");
  EXPECT_EQ(ProblemIn(std::string("\x7f"
                                  "ELF\0\0\n\1\2",
                                  9)),
            "line 1: this is no text");
  EXPECT_EQ(ProblemIn("\x01\x02\xff\n").substr(75), "it is \"\\001\\002\\377\"");
}

TEST(TraceTest, FilesThatCannotBeRead) {
  EXPECT_EQ(ReadTraceFile("/").status().message(), "/: is a folder, not a file");
  EXPECT_EQ(ReadTraceFile("no/such.csv").status().message(),
            "no/such.csv: cannot be read: No such file or directory");
  EXPECT_EQ(ReadTraceFile("/dev/null").status().message(), "/dev/null: is empty");
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
  const auto trace = ReadTrace(csv);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->workers.size(), 8);
  EXPECT_EQ(trace->stages.size(), 2);
  ASSERT_EQ(trace->generations.size(), 2);
  EXPECT_EQ(trace->nodes, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(trace->generations[1].ranks.at(7).node, 3);
  EXPECT_EQ(trace->passed_over, (std::vector<std::string>{"label", "label_factor"}));
  std::stringstream again;
  WriteHistory(*spec, 3, again);
  EXPECT_EQ(text, again.str());
}

TEST(TraceTest, AGeneratedHistoryIsPlainCsvWithLabels) {
  const auto spec = ParseSpec(
      "ranks=8 ranks_per_node=1 stages=1 steps=100 faults=1 factor=1.5 onset=0.4 transients=0");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto labels = nlohmann::json::parse(LabelsOf(*spec, 3));
  ASSERT_EQ(labels["faults"].size(), 1);
  const auto& fault = labels["faults"][0];
  EXPECT_EQ(fault["class"], "persistent");
  EXPECT_EQ(fault["begin"], 40);
  std::stringstream csv;
  WriteHistory(*spec, 3, csv);
  int slow = 0;
  for (std::string line; std::getline(csv, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_EQ(cells.size(), 13) << line;
    if (cells[0] == "step") continue;
    const bool is_slow =
        std::stoi(cells[0]) >= 40 && std::stoi(cells[1]) == fault["workers"][0]["dp"].get<int>();
    EXPECT_EQ(cells[11], is_slow ? "persistent" : "healthy") << line;
    EXPECT_EQ(cells[12], is_slow ? "1.5" : "1") << line;
    slow += is_slow ? 1 : 0;
  }
  EXPECT_EQ(slow, 60);
}

}  // namespace
}  // namespace paceline::detect
