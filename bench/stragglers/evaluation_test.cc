#include "bench/stragglers/evaluation.h"

#include <gtest/gtest.h>

#include <set>

#include "bench/stragglers/history_spec.h"
#include "bench/stragglers/report.h"

namespace paceline::detect {
namespace {

constexpr char kSmall[] = "ranks=32 ranks_per_node=4 stages=2 steps=400 faults=2 factor=1.5";

TEST(SweepTest, EveryRowCanBePlayed) {
  std::set<std::string> names;
  for (const SweepRow& row : Sweep()) {
    EXPECT_TRUE(ParseSpec(row.spec).ok()) << row.name << ": " << ParseSpec(row.spec).status();
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(SweepTest, NoSeedIsForTuningAndReporting) {
  EXPECT_LT(kTuningSeeds.last, kReportingSeeds.first);
  // Nor through the further histories of a seed.
  for (const SweepRow& row : Sweep()) {
    EXPECT_LT(kReportingSeeds.last, HistorySeed(1, 1)) << row.name;
  }
}

TEST(EvaluationTest, FiguresDoNotDependOnTheThreads) {
  const std::vector<SweepRow> rows = {{"one", kSmall, Claim::kTenPercent, 2}, {"two", kSmall}};
  EvaluationOptions options;
  options.seeds = {1, 3};
  options.peers_every = 2;
  options.threads = 1;
  const auto one = EvaluationJson(Evaluate(rows, options), options.seeds);
  options.threads = 3;
  EXPECT_EQ(one, EvaluationJson(Evaluate(rows, options), options.seeds));
}

TEST(EvaluationTest, CountsHistoriesOfRowsAndPeers) {
  const std::vector<SweepRow> rows = {{"twice", kSmall, Claim::kTenPercent, 2},
                                      {"seldom", kSmall, Claim::kFivePercent, 1, 3}};
  EvaluationOptions options;
  options.seeds = {1, 6};
  options.peers_every = 4;
  const std::vector<RowFigures> figures = Evaluate(rows, options);
  ASSERT_EQ(figures.size(), 2);
  EXPECT_EQ(figures[0].rules.at(0).figures.histories, 12);
  EXPECT_EQ(figures[0].rules.at(1).figures.histories, 3);
  EXPECT_EQ(figures[1].rules.at(0).figures.histories, 2);
  EXPECT_EQ(figures[1].rules.at(1).figures.histories, 1);
  EXPECT_EQ(figures[0].rules.at(0).figures.rank_steps, 12 * 32 * 400);
  EXPECT_EQ(Total(figures).at(0).figures.histories, 14);
}

TEST(EvaluationTest, ATotalIsOfAllSlowdownsOfTenPercent) {
  const std::string harder = std::string(kSmall) + " sd=0.03";
  const std::vector<SweepRow> rows = {
      {"claimed", kSmall},
      {"harder", harder, Claim::kHarder},
      {"less", std::string(kSmall) + " factor=1.07", Claim::kHarder},
      {"nobody", "ranks=16 steps=50 faults=0 transients=0", Claim::kNotStraggler}};
  EvaluationOptions options;
  options.seeds = {1, 1};
  const auto totals = EvaluationJson(Evaluate(rows, options), options.seeds)["totals"];
  EXPECT_EQ(totals["10 % and more"]["Paceline"]["histories"], 1);
  EXPECT_EQ(totals["10 % and more, all rows"]["Paceline"]["histories"], 2);
  EXPECT_EQ(totals["harder"]["Paceline"]["histories"], 2);
  EXPECT_EQ(totals["all"]["Paceline"]["histories"], 4);
}

TEST(EvaluationTest, TheDetectorFindsWhatIsPlain) {
  EvaluationOptions options;
  options.seeds = {1, 4};
  const std::vector<RowFigures> figures = Evaluate({{"plain", kSmall}}, options);
  const Figures& ours = figures[0].rules[0].figures;
  EXPECT_EQ(ours.positives, 8);
  EXPECT_EQ(ours.found, 8);
  EXPECT_EQ(ours.wrong_suspects, 0);
  EXPECT_EQ(ours.wrong_drains, 0);
  EXPECT_LE(ours.to_suspect.Quantile(0.5), 5);
}

}  // namespace
}  // namespace paceline::detect
