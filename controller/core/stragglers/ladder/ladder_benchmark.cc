// Times one plan of a ladder, from as many measured steps as are kept to the advice.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

void Plan(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const int per_node = static_cast<int>(state.range(1));
  LadderInputs inputs;
  DrawnTimes wish = Stalling(ranks, 0.01);
  wish.steps = LadderWindow(ranks);
  inputs.times = Draw(wish);
  inputs.homes = Homes(ranks, per_node, ranks);
  inputs.costs.Add(ranks, 0.001);
  inputs.step = 5000;
  inputs.steps = 20000;
  for (auto _ : state) benchmark::DoNotOptimize(PlanLadder(inputs));
}
BENCHMARK(Plan)
    ->ArgNames({"ranks", "per_node"})
    ->Unit(benchmark::kMillisecond)
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({64, 8})
    ->Args({720, 1})
    ->Args({1024, 1})
    ->Args({1024, 8})
    ->Args({8192, 8});

// Times how one step of all ranks is added to the history.
void Add(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  LadderStalls stalls(ranks);
  const std::vector<float> own_s(static_cast<size_t>(ranks), 0.1F);
  for (auto _ : state) stalls.Add(own_s);
  state.SetItemsProcessed(state.iterations() * ranks);
}
BENCHMARK(Add)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
