#include "bench/stragglers/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace paceline::detect {
namespace {

using nlohmann::json;

std::vector<json> ReplayFile(const std::string& name) {
  std::ifstream csv("bench/stragglers/testdata/" + name);
  const auto trace = ReadTrace(csv);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return Replay(*trace, 0);
}

std::set<std::pair<int, int>> Named(const std::vector<json>& lines) {
  std::set<std::pair<int, int>> named;
  for (const json& line : lines) {
    if (!line.contains("kind") || line["kind"] == "GROUP") continue;
    named.emplace(line["dp"].get<int>(), line["stage"].get<int>());
  }
  return named;
}

TEST(ReplayTest, TheSlowWorkerOfARealTraceIsNamedAndNobodyElse) {
  const std::vector<json> lines = ReplayFile("AR_rank_steps.csv");
  EXPECT_EQ(Named(lines), (std::set<std::pair<int, int>>{{0, 0}}));
  for (const json& line : lines) {
    if (line.contains("summary") || line["kind"] != "SUSPECT") continue;
    EXPECT_NEAR(line["slowdown"].get<double>(), 2.35, 0.05);
    EXPECT_EQ(line["cause"], "compute");
  }
}

// As the authors of the trace slowed one worker, so each other one is slowed here.
TEST(ReplayTest, TenPercentMoreOfAnyWorkerOfARealTraceIsFound) {
  for (size_t slowed = 1; slowed < 16; ++slowed) {
    std::ifstream csv("bench/stragglers/testdata/AR_rank_steps.csv");
    auto trace = ReadTrace(csv);
    ASSERT_TRUE(trace.ok()) << trace.status();
    constexpr int64_t kFrom = 415;  // A third of the traced steps comes before.
    for (TraceRow& row : trace->rows) {
      if (row.sample.rank != static_cast<int>(slowed) || row.sample.step < kFrom) continue;
      row.sample.forward_s *= 1.1;
      row.sample.backward_s *= 1.1;
    }
    const TraceWorker& worker = trace->workers[slowed];
    EXPECT_EQ(Named(Replay(*trace, 0)),
              (std::set<std::pair<int, int>>{{0, 0}, {worker.dp, worker.stage}}));
  }
}

TEST(ReplayTest, UnevenStagesOfARealTraceAreNoStragglers) {
  const std::vector<json> lines = ReplayFile("ST_rank_steps.csv");
  EXPECT_TRUE(Named(lines).empty());
  const json& summary = lines.back()["summary"];
  ASSERT_EQ(summary["groups"].size(), 4);
  EXPECT_EQ(summary["groups"][0]["status"], "too few peers");
  EXPECT_NEAR(summary["groups"][3]["imbalance"].get<double>(), 1.6, 0.05);
}

TEST(ReplayTest, LinesHaveTheirKeys) {
  const std::vector<json> lines = ReplayFile("AR_rank_steps.csv");
  for (const json& line : lines) {
    if (line.contains("summary")) continue;
    for (const char* key : {"step", "dp", "stage", "node", "kind", "slowdown", "cause"}) {
      EXPECT_TRUE(line.contains(key)) << key;
    }
  }
  const json& summary = lines.back()["summary"];
  EXPECT_EQ(summary["rows"], 704);
  EXPECT_EQ(summary["steps"], 44);
  EXPECT_EQ(summary["workers"], 16);
}

TEST(ReplayTest, TheOrderOfRowsDoesNotMatter) {
  const auto spec = ParseSpec("ranks=16 ranks_per_node=2 stages=1 steps=300 faults=1 factor=1.5");
  std::stringstream csv;
  WriteHistory(*spec, 1, csv);
  std::string head;
  std::getline(csv, head);
  std::vector<std::string> rows;
  for (std::string row; std::getline(csv, row);) rows.push_back(row);
  std::stringstream backwards;
  backwards << head << '\n';
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) backwards << *row << '\n';
  std::stringstream forwards(csv.str());
  const auto one = ReadTrace(forwards);
  const auto other = ReadTrace(backwards);
  ASSERT_TRUE(one.ok() && other.ok());
  const std::vector<json> lines = Replay(*one, 20);
  EXPECT_EQ(lines, Replay(*other, 20));
  EXPECT_GE(lines.back()["summary"]["verdicts"]["SUSPECT"].get<int>(), 1);
}

}  // namespace
}  // namespace paceline::detect
