#include "bench/stragglers/replay.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace paceline::detect {
namespace {

using nlohmann::json;

std::vector<json> ReplayFile(const std::string& name,
                             std::optional<int> warm_up_steps = std::nullopt) {
  const auto trace = ReadTraceFile("bench/stragglers/testdata/" + name);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return Replay(*trace, warm_up_steps);
}

std::vector<json> ReplayText(const std::string& text) {
  std::istringstream csv(text);
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
    EXPECT_EQ(line["step"], 29) << "the fourth one traced: nothing is taken for a warm-up";
  }
}

// The authors of the trace slowed one worker; here each other one is slowed in the same way.
TEST(ReplayTest, TenPercentMoreOfAnyWorkerOfARealTraceIsFound) {
  for (size_t slowed = 1; slowed < 16; ++slowed) {
    auto trace = ReadTraceFile("bench/stragglers/testdata/AR_rank_steps.csv");
    ASSERT_TRUE(trace.ok()) << trace.status();
    constexpr int64_t kFrom = 415;  // A third of the traced steps comes before.
    for (TraceRow& row : trace->rows) {
      if (row.worker != static_cast<int>(slowed) || row.step < kFrom) continue;
      row.forward_s *= 1.1F;
      row.backward_s *= 1.1F;
    }
    const TraceWorker& worker = trace->workers[slowed];
    EXPECT_EQ(Named(Replay(*trace, std::nullopt)),
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
  EXPECT_TRUE(summary["notes"].empty());
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

// Rows of `workers` workers on nodes of their own, `seconds` by step and worker.
template <typename Seconds>
std::string Rows(int steps, int workers, const Seconds& seconds) {
  std::string rows;
  for (int step = 0; step < steps; ++step) {
    for (int worker = 0; worker < workers; ++worker) {
      const double jitter = 1 + 0.002 * ((step * 7 + worker * 3) % 5);
      absl::StrAppend(&rows, step, ",", worker, ",0,", seconds(step, worker) * jitter, ",1,0\n");
    }
  }
  return rows;
}

constexpr char kHead[] = "step,dp,stage,fwd_s,bwd_s,wall_s\n";

TEST(ReplayTest, WhatIsNotKnownIsNoVerdict) {
  std::string forward_only = kHead;
  std::string one_waits = "step,dp,stage,fwd_s,bwd_s,wall_s,data_wait_s\n";
  for (int step = 0; step < 100; ++step) {
    for (int worker = 0; worker < 8; ++worker) {
      const double jitter = 1 + 0.002 * ((step * 7 + worker * 3) % 5);
      const double slow = worker == 3 && step >= 50 ? 1.3 : 1;
      absl::StrAppend(&forward_only, step, ",", worker, ",0,", jitter * slow, ",0,0\n");
      absl::StrAppend(&one_waits, step, ",", worker, ",0,", jitter, ",1,0,",
                      worker == 3 ? "0.5" : "NA", "\n");
    }
  }
  std::vector<json> lines = ReplayText(forward_only);
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["dp"], 3);
  EXPECT_EQ(lines[0]["cause"], "compute") << "no host pause: the passes are not told apart";
  lines = ReplayText(one_waits);
  ASSERT_EQ(lines.size(), 1) << "the others may wait as long";
  EXPECT_EQ(lines[0]["summary"]["reports"]["taken"], 800);
}

TEST(ReplayTest, StepsAreShownAsTheyWere) {
  std::string text = kHead;
  for (int step = 0; step < 60; ++step) {
    for (int worker = 0; worker < 6; ++worker) {
      const double slow = worker == 2 && step >= 31 ? 2 : 1;
      absl::StrAppend(&text, 0.5 * step, ",", worker, ",0,", slow, ",", slow, ",0\n");
    }
  }
  const std::vector<json> lines = ReplayText(text);
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["since_step"], 15.5);
  EXPECT_EQ(lines[0]["step"], 17);
  EXPECT_EQ(lines[0]["step"].dump(), "17");
  EXPECT_EQ(lines[1]["summary"]["steps"], 60);
}

TEST(ReplayTest, VerdictsAreOfTheirGeneration) {
  std::string text = "step,dp,stage,fwd_s,bwd_s,wall_s,generation,node\n";
  const auto add = [&](int generation, int first, const char* node) {
    for (int step = 0; step < 60; ++step) {
      for (int worker = first; worker < 8; ++worker) {
        const double slow = worker == 7 && step >= 30 ? 2 : 1;
        absl::StrAppend(&text, step, ",", worker, ",0,", slow, ",1,0,", generation, ",",
                        worker == 7 ? node : std::to_string(worker), "\n");
      }
    }
  };
  add(4, 2, "new");  // After two workers have left.
  add(1, 0, "old");
  const std::vector<json> lines = ReplayText(text);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["node"], "old");
  EXPECT_EQ(lines[0]["generation"], 1);
  EXPECT_EQ(lines[0]["dp"], 7);
  EXPECT_EQ(lines[1]["node"], "new");
  EXPECT_EQ(lines[1]["generation"], 4);
  EXPECT_EQ(lines[1]["dp"], 7);
  const json& summary = lines[2]["summary"];
  EXPECT_EQ(summary["generations"], 2);
  EXPECT_EQ(summary["groups"][0]["workers"], 6);
  EXPECT_EQ(summary["groups"][0]["suspect"], json({7}));
  EXPECT_EQ(summary["reports"]["missing"], 0);
}

TEST(ReplayTest, AStartIsNoEventOfTheJob) {
  const auto spec = ParseSpec(
      "ranks=16 ranks_per_node=1 stages=1 steps=400 noise=gaussian faults=1 factor=1.2 "
      "transients=0 restarts=1");
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::stringstream csv;
  WriteHistory(*spec, 1, csv);
  const auto trace = ReadTrace(csv);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const std::vector<json> lines = Replay(*trace, std::nullopt);
  const json& summary = lines.back()["summary"];
  EXPECT_EQ(summary["verdicts"]["GROUP"], 0);
  ASSERT_EQ(summary["warm_up_steps"].size(), 2) << "one for each start";
  for (const json& steps : summary["warm_up_steps"]) {
    EXPECT_GE(steps.get<int>(), 8) << "ten are longer, the last ones by little";
    EXPECT_LE(steps.get<int>(), 10);
  }
  EXPECT_EQ(Replay(*trace, 3).back()["summary"]["warm_up_steps"], json({3, 3}));
}

TEST(ReplayTest, TwoStagesAreComparedWithEachOther) {
  std::string text = kHead;
  for (int worker = 0; worker < 8; ++worker) {
    absl::StrAppend(&text, "1,", worker, ",", worker / 4, worker < 4 ? ",1,1,0\n" : ",1,2,0\n");
  }
  const json groups = ReplayText(text).back()["summary"]["groups"];
  EXPECT_NEAR(groups[0]["imbalance"].get<double>(), 1 / 1.5, 1e-9);
  EXPECT_NEAR(groups[1]["imbalance"].get<double>(), 1.5, 1e-9);
  EXPECT_TRUE(ReplayText(absl::StrCat(kHead, "1,0,0,1,1,0\n"))
                  .back()["summary"]["groups"][0]["imbalance"]
                  .is_null());
}

TEST(ReplayTest, WhatCouldNotBeJudgedIsSaid) {
  const auto notes = [](const std::string& text) {
    std::string all;
    const std::vector<json> lines = ReplayText(text);
    for (const json& note : lines.back()["summary"]["notes"]) {
      all += note.get<std::string>() + "\n";
    }
    return all;
  };
  const auto flat = [](int, int) { return 1.0; };
  EXPECT_EQ(notes(kHead + Rows(30, 4, flat)), "");
  EXPECT_EQ(notes(kHead + Rows(30, 2, flat)),
            "stage 0: nobody can say who is slow; a worker needs three others of its stage on "
            "other nodes\n");
  const std::string nothing = notes(kHead + Rows(30, 4, [](int, int) { return -2; }));
  EXPECT_NE(nothing.find("rows that are not taken: 120;"), std::string::npos) << nothing;
  EXPECT_NE(nothing.find("no step could be evaluated"), std::string::npos) << nothing;
  EXPECT_NE(notes(kHead + Rows(30, 4, flat) + Rows(2, 4, flat))
                .find("rows of a worker and step that were there before: 8;"),
            std::string::npos);
  EXPECT_EQ(notes(kHead + Rows(30, 4, flat) + "30,0"),
            "the last line is no whole row, and left out\n");
}

}  // namespace
}  // namespace paceline::detect
