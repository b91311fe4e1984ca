// Simulates what Slipstream gains under random stalls with 64 to 4,096 ranks: the trainers' own
// state machines in simulated time, beside what the planner predicts from another history of the
// same kind, and the fastest ladder that it allows. Prints one JSON object; bench/slipstream.py
// makes rows of it.
//
// Steps of 55 ms with 3 % jitter, stalls of 1 s, messages of 0.5 ms, sums of all parameters 10 ms,
// passes over them 0.25 ms. Gradients of synchronous steps and averages of ladders are free of
// cost.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/slipstream_simulation.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"
#include "controller/core/stragglers/ladder/testing/ladder_histories.h"
#include "controller/core/stragglers/slipstream/strategy_planner.h"

namespace paceline {
namespace {

constexpr SlipstreamCosts kCosts = {0.0005, 0.01, 0.00025};
constexpr int kRanksPerNode = 8;
// Simulated steps, after a quarter as many to settle.
constexpr int kStepsPlayed = 512;

struct Case {
  double stall_share = 0;
  double freezing_share = 0;
};
constexpr Case kCases[] = {{0.005, 0}, {0.02, 0}, {0.05, 0}, {0.02, 0.3}};

OwnTimes History(int ranks, double stall_share, uint64_t seed) {
  DrawnTimes wish = Stalling(ranks, stall_share);
  wish.jitter = 0.03;
  wish.steps = LadderWindow(ranks);
  wish.seed = seed;
  return Draw(wish);
}

double Simulate(const OwnSteps& steps, const SlipstreamPrediction& prediction) {
  SlipstreamSimulation job(steps, kCosts, prediction.mode, prediction.bounds);
  const absl::Duration played = absl::Seconds(kStepsPlayed * prediction.step_s);
  job.Run(played / 4);
  const double before = job.steps_done();
  job.Run(played);
  return absl::ToDoubleSeconds(played) / (job.steps_done() - before);
}

nlohmann::json Play(int ranks, const Case& c) {
  StrategyInputs inputs;
  inputs.ladder.times = History(ranks, c.stall_share, /*seed=*/1);
  inputs.ladder.homes = Homes(ranks, kRanksPerNode, ranks);
  inputs.ladder.costs.Add(ranks, 0);
  inputs.ladder.steps = inputs.ladder.step = 1;
  inputs.slipstream = kCosts;
  inputs.freezing_share = c.freezing_share;
  const StrategyPlan plan = PlanStrategy(inputs);

  const OwnTimes played = History(ranks, c.stall_share, /*seed=*/2);
  const OwnSteps steps(played, c.freezing_share);
  nlohmann::json modes = nlohmann::json::object();
  for (const SlipstreamPrediction& prediction : plan.slipstreams) {
    if (prediction.mode == SlipstreamMode::kSync) continue;
    modes[SlipstreamModeName(prediction.mode)] = {{"step_s", Simulate(steps, prediction)},
                                                  {"predicted_s", prediction.step_s}};
  }
  return {{"ranks", ranks},
          {"stall_share", c.stall_share},
          {"freezing_share", c.freezing_share},
          {"chosen", plan.slipstream ? SlipstreamModeName(plan.slipstream->mode) : "ddp"},
          {"why", StrategyWhyName(plan.why)},
          {"ddp_s", SummarizeStalls(played).synchronous_s},
          {"ladder_s", plan.ladder ? plan.ladder->step_s : plan.ddp.step_s},
          {"ideal_s", steps.ideal_s()},
          {"modes", modes}};
}

int Main(int argc, char** argv) {
  std::vector<int> ranks = {64, 256, 1024, 4096};
  CLI::App app("What Slipstream gains under random stalls, by simulation.");
  app.add_option("--ranks", ranks, "numbers of ranks")->delimiter(',')->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  nlohmann::json cases = nlohmann::json::array();
  for (const int count : ranks) {
    for (const Case& c : kCases) cases.push_back(Play(count, c));
  }
  std::cout << nlohmann::json{{"cases", cases}} << "\n";
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
