// Simulates what the planner's ladders and the published ones gain under random stalls: ladders are
// planned from one drawn history and played with others. Prints one JSON object; bench/hsgd.py
// makes rows of it.
//
// The cases are those of "Straggler Mitigation on PyTorch DDP by Hierarchical SGD" (PyTorch's
// blog): steps of 55 ms, stalls of 1 s, four ranks a node. Averages are free of cost, as nothing is
// published about theirs.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"
#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

constexpr int kRanksPerNode = 4;
constexpr int kStepsPlayed = 1000;

struct Case {
  int ranks = 0;
  double stall_share = 0;
  // Periods and sizes below all ranks; the last level is all ranks every 8th step.
  std::vector<std::vector<std::pair<int64_t, int>>> published;
};

std::vector<Case> Cases() {
  return {
      {64, 0.02, {{{2, 8}, {4, 32}}, {{4, 32}}}},
      {128, 0.01, {{{2, 8}, {4, 32}}, {{4, 32}}}},
      {256, 0.01, {{{1, 4}, {2, 16}, {4, 64}}, {{2, 8}, {4, 64}}, {{4, 16}}}},
      {1024, 0.001, {}},
      {1024, 0.01, {}},
  };
}

Ladder Published(const std::vector<std::pair<int64_t, int>>& inner) {
  Ladder ladder;
  for (const auto& [period, size] : inner) ladder.push_back({period, LadderScope::kSize, size});
  ladder.push_back({8, LadderScope::kAll, 0});
  return ladder;
}

LadderInputs InputsOf(int ranks, double share, int steps, uint64_t seed) {
  DrawnTimes wish = Stalling(ranks, share);
  wish.steps = steps;
  wish.seed = seed;
  LadderInputs inputs;
  inputs.times = Draw(wish);
  inputs.homes = Homes(ranks, kRanksPerNode, ranks);
  inputs.costs.Add(ranks, 0);
  inputs.steps = inputs.step = 1;
  return inputs;
}

// Speed-ups of a ladder over synchronous steps, with each of the histories.
std::vector<double> Play(const Ladder& ladder, std::vector<LadderInputs>& histories) {
  std::vector<double> speedups;
  for (LadderInputs& history : histories) {
    history.current = ladder;
    speedups.push_back(PlanLadder(history).current.speedup);
  }
  return speedups;
}

nlohmann::json Run(const Case& c, int seeds) {
  std::vector<LadderInputs> later;
  for (int seed = 2; seed < seeds + 2; ++seed) {
    later.push_back(InputsOf(c.ranks, c.stall_share, kStepsPlayed, static_cast<uint64_t>(seed)));
  }
  const int window = LadderWindow(c.ranks);
  const LadderPlan plan = PlanLadder(InputsOf(c.ranks, c.stall_share, window, 1));
  nlohmann::json published = nlohmann::json::object();
  for (const auto& inner : c.published) {
    const Ladder ladder = Published(inner);
    published[DescribeLadder(ladder)] = Play(ladder, later);
  }
  return {{"ranks", c.ranks},
          {"stall_share", c.stall_share},
          {"ladder", DescribeLadder(plan.ladder)},
          {"predicted", plan.synchronous.step_s / plan.step_s},
          {"ours", Play(plan.ladder, later)},
          {"published", published}};
}

int Main(int argc, char** argv) {
  int seeds = 20;
  CLI::App app("What ladders gain under random stalls, by simulation.");
  app.add_option("--seeds", seeds, "histories to play")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  nlohmann::json cases = nlohmann::json::array();
  for (const Case& c : Cases()) cases.push_back(Run(c, seeds));
  std::cout << nlohmann::json{{"cases", cases}} << "\n";
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
