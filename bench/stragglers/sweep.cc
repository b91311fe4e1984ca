#include "bench/stragglers/sweep.h"

namespace paceline::detect {

const std::vector<SweepRow>& Sweep() {
  static const auto& rows = *new std::vector<SweepRow>{
      // How slow.
      {"1.03x", "factor=1.03", Claim::kHarder},
      {"1.05x", "factor=1.05", Claim::kFivePercent, 3},
      {"1.07x", "factor=1.07", Claim::kHarder},
      {"1.1x", "factor=1.1"},
      {"1.2x", "factor=1.2"},
      {"1.5x", "factor=1.5"},
      {"2x", "factor=2"},
      {"3x", "factor=3"},
      // How it comes.
      {"1.1x from the start", "factor=1.1 onset=0", Claim::kHarder},
      {"ramp to 1.2x in 200 steps", "factor=1.2 shape=ramp", Claim::kHarder},
      {"1.3x, 30 steps on, 30 off", "factor=1.3 shape=intermittent", Claim::kHarder},
      {"3x for one step", "factor=3 shape=oneoff faults=40", Claim::kNotStraggler},
      // Whom it meets.
      {"node 1.2x", "factor=1.2 scope=node"},
      {"two nodes of a stage 1.1x at once", "factor=1.1 scope=node faults=2 together=yes",  //
       Claim::kTenPercent, 2},
      {"six ranks of a stage 1.1x at once", "factor=1.1 faults=6 together=yes"},
      {"half a stage 1.3x", "ranks=64 factor=1.3 scope=group share=0.5 faults=1",
       Claim::kNotStraggler, 4},
      {"30 % of a stage 1.3x", "ranks=64 factor=1.3 scope=group share=0.3 faults=1",
       Claim::kNotStraggler, 4},
      {"a stage 1.3x", "ranks=64 factor=1.3 scope=stage faults=1", Claim::kNotStraggler, 4},
      {"the job 1.3x", "ranks=64 factor=1.3 scope=job faults=1", Claim::kNotStraggler, 4},
      {"nobody", "faults=0 transients=0", Claim::kNotStraggler, 2},
      {"30 transients", "faults=0 transients=30", Claim::kNotStraggler, 2},
      {"12 transients of nodes", "faults=0 transients=12 transient_nodes=yes", Claim::kNotStraggler,
       2},
      // How many ranks.
      {"8 ranks, 1.1x", "ranks=8 ranks_per_node=1 stages=1 faults=1 transients=1",
       Claim::kTenPercent, 4},
      {"16 ranks in 4 stages, 1.1x", "ranks=16 ranks_per_node=1 faults=1 transients=1",
       Claim::kTenPercent, 4},
      {"32 ranks on 4 nodes, 1.1x", "ranks=32 stages=1 faults=1 transients=1", Claim::kTenPercent,
       4},
      {"32 ranks, one node of four 1.2x",
       "ranks=32 stages=1 factor=1.2 scope=node faults=1 transients=1", Claim::kTenPercent, 4},
      {"two ranks of one of two nodes 1.1x",
       "ranks=8 ranks_per_node=4 stages=1 fault_ranks=2 faults=1 transients=1", Claim::kTenPercent,
       4},
      {"64 ranks, 1.1x", "ranks=64 stages=2 faults=2 transients=2", Claim::kTenPercent, 2},
      {"1024 ranks, 1.1x", "ranks=1024 stages=8 faults=16 transients=16", Claim::kTenPercent, 1, 4},
      {"8192 ranks, 1.1x", "ranks=8192 stages=16 faults=64 transients=64 steps=700",
       Claim::kTenPercent, 1, 20},
      // In what noise.
      {"noise 0.5 %, 1.1x", "sd=0.005"},
      {"noise 1 %, not correlated, 1.1x", "sd=0.01 rho=0"},
      {"noise 1 %, correlation 0.8, 1.1x", "sd=0.01 rho=0.8", Claim::kHarder},
      {"noise 3 %, 1.1x", "sd=0.03", Claim::kHarder},
      {"noise 3 %, Student's, pauses and waits 2 %, 1.1x",
       "sd=0.03 noise=student pauses=0.02 loader=0.02 loader_reported=no", Claim::kHarder},
      {"gaussian, 1.1x", "noise=gaussian"},
      {"Laplace, 1.1x", "noise=laplace"},
      {"log-normal, 1.1x", "noise=lognormal"},
      {"Student's t, 1.1x", "noise=student"},
      {"bursts, 1.1x", "noise=bursts"},
      {"ticks of 10 ms, 1.1x", "noise=quantised"},
      {"noise of real traces, 1.1x", "noise=real"},
      {"host pauses 2 % of steps, 1.1x", "pauses=0.02"},
      {"hidden waits for data 2 %, 1.1x", "loader=0.02 loader_reported=no"},
      {"lasting differences of 1 %, 1.1x", "spread=0.01"},
      {"steps of 0.1 s, pauses as long, 1.1x",
       "step_s=0.1 pause_s=0.02..0.2 noise=gaussian steps=2000"},
      {"sequences 13 %, reported, 1.1x", "imbalance=0.13 workload=yes"},
      {"sequences 13 %, not reported, 1.1x", "imbalance=0.13 steps=2500", Claim::kHarder},
      // What reports are like.
      {"5 % lost, late and repeated each, 1.1x",
       "missing=0.05 late=0.05 repeated=0.05 reordered=yes"},
      {"1 % nonsense, 1.1x", "garbage=0.01"},
      {"two restarts, 1.1x", "restarts=2 steps=1500"},
      // Why.
      {"waits for data 1.2x", "factor=1.2 cause=data"},
      {"host pauses at each step 1.2x", "factor=1.2 cause=pause"},
  };
  return rows;
}

uint64_t HistorySeed(uint64_t seed, int index) {
  return seed + 1'000'000'000 * static_cast<uint64_t>(index);
}

}  // namespace paceline::detect
