// Cost of one event for the controller's decisions, on clusters of 10,000 and of 100,000 ranks, all
// in running jobs of 50: a node's report, the same while some nodes are held, a step of a rank, a
// node that disconnects and comes back. Without network, storage and watchers.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {
namespace {

constexpr int kSlots = 8;      // Of a node.
constexpr int kRanks = 50;     // Of a job.
constexpr int kHeldNodes = 5;  // Cordoned, in the second case.

class RunningCluster {
 public:
  explicit RunningCluster(int nodes) {
    std::vector<Node> known;
    for (int n = 0; n < nodes; ++n) known.push_back(MakeNode(n));
    std::vector<Job> jobs;
    for (int j = 0; (j + 1) * kRanks <= nodes * kSlots; ++j) jobs.push_back(MakeJob(j));
    cluster.Restore(std::move(jobs), std::move(known), now);
    for (int n = 0; n < nodes; ++n) {
      names.push_back(NameOf(n));
      for (const PlannedTrainer& planned : cluster.PlanFor(names.back())) {
        trainers[names.back()].push_back(planned.id);
      }
    }
    for (const NodeName& name : names) Connect(name);
    for (const NodeName& name : names) Report(name);
  }

  void Connect(const NodeName& name) {
    Take(NodeConnected{cluster.nodes().at(name).facts, Reports(name)});
  }
  void Disconnect(const NodeName& name) { Take(NodeDisconnected{name}); }
  void Report(const NodeName& name) { Take(NodeReported{name, Reports(name)}); }

  void TakeStep(const NodeName& name, const TrainerId& trainer) {
    StepTimes times;
    times.step = step;
    times.forward_s = 0.03;
    times.backward_s = 0.06;
    times.communication_s = 0.01;
    times.total_s = 0.1;
    steps.TakeSteps(cluster, name, trainer, {&times, 1});
    stragglers.TakeSteps(cluster, name, trainer, {&times, 1}, now);
  }

  // All nodes report once in a second.
  void Wait() {
    const absl::Duration pause = absl::Seconds(1) / static_cast<int64_t>(names.size());
    now.steady += pause;
    now.wall += pause;
  }

  void Take(const Event& event) {
    const Actions actions = cluster.Step(event, now);
    stragglers.Follow(cluster, actions, now);
    steps.Follow(cluster, actions, now);
    benchmark::DoNotOptimize(cluster.NextDeadline());
    benchmark::DoNotOptimize(stragglers.NextDeadline());
  }

  Cluster cluster{Cluster::Options()};
  Stragglers stragglers{StragglerOptions(), [](const auto&, const auto&) { return ""; },
                        [](const auto&, const auto&) { return ""; }};
  StepHistory steps;
  Moment now{absl::UnixEpoch() + absl::Hours(1), absl::FromUnixSeconds(1700000000)};
  std::vector<NodeName> names;
  std::map<NodeName, std::vector<TrainerId>> trainers;
  int64_t step = 0;

 private:
  static NodeName NameOf(int n) { return NodeName(absl::StrFormat("node-%05d", n)); }

  static Node MakeNode(int n) {
    Node node;
    node.facts.name = NameOf(n);
    node.facts.uid = "uid";
    node.facts.slots = kSlots;
    return node;
  }

  Job MakeJob(int j) const {
    JobRequest request;
    request.id = JobId(absl::StrFormat("job-%012x", j));
    request.name = absl::StrCat("job-", j);
    request.ranks = kRanks;
    request.steps = 1'000'000'000;
    Job job = NewJob(std::move(request), j, now);
    std::vector<Slot> slots;
    for (int r = 0; r < kRanks; ++r) {
      const int slot = j * kRanks + r;
      slots.push_back({NameOf(slot / kSlots), slot % kSlots});
    }
    PlaceJob(job, std::move(slots), now);
    job.state = JobState::kRunning;
    job.started = now.wall;
    return job;
  }

  std::vector<TrainerReport> Reports(const NodeName& name) {
    std::vector<TrainerReport> reports;
    const int64_t second = absl::ToUnixSeconds(now.steady);
    for (const TrainerId& id : trainers[name]) {
      TrainerReport& report = reports.emplace_back();
      report.id = id;
      report.state = TrainerState::kRunning;
      report.pid = 1 + id.rank.value();
      report.store_address = "127.0.0.1:20000";
      report.progress.step = 10 * (second - 3000);
      report.progress.phase = 3;
      report.progress.step_time = absl::Milliseconds(100);
      report.plan.prepared = report.plan.active = PlanVersion(1);
      report.membership.generation = Generation(1);
      report.figures.details = std::string(200, 'f');
    }
    return reports;
  }
};

// The cluster of this size; made once per size.
RunningCluster& Of(int64_t nodes) {
  static auto& clusters = *new std::map<int64_t, std::unique_ptr<RunningCluster>>;
  std::unique_ptr<RunningCluster>& known = clusters[nodes];
  if (known == nullptr) known = std::make_unique<RunningCluster>(static_cast<int>(nodes));
  return *known;
}

void BM_Report(benchmark::State& state) {
  RunningCluster& running = Of(state.range(0));
  size_t n = 0;
  for (auto _ : state) {
    running.Wait();
    running.Report(running.names[n++ % running.names.size()]);
  }
}
BENCHMARK(BM_Report)->Arg(1250)->Arg(12500)->Unit(benchmark::kMicrosecond);

void BM_ReportWhileNodesAreHeld(benchmark::State& state) {
  RunningCluster& running = Of(state.range(0));
  for (int n = 0; n < kHeldNodes; ++n) {
    Hold hold;
    hold.owner = "ann";
    running.Take(HoldRequested{running.names[static_cast<size_t>(n)], std::move(hold)});
  }
  size_t n = 0;
  for (auto _ : state) {
    running.Wait();
    running.Report(running.names[n++ % running.names.size()]);
  }
  for (int held = 0; held < kHeldNodes; ++held) {
    running.Take(NodeResumeRequested{running.names[static_cast<size_t>(held)], "ann"});
  }
}
BENCHMARK(BM_ReportWhileNodesAreHeld)->Arg(1250)->Arg(12500)->Unit(benchmark::kMicrosecond);

void BM_Step(benchmark::State& state) {
  RunningCluster& running = Of(state.range(0));
  size_t n = 0;
  size_t t = 0;
  for (auto _ : state) {
    const NodeName& name = running.names[n];
    const std::vector<TrainerId>& trainers = running.trainers[name];
    if (t < trainers.size()) running.TakeStep(name, trainers[t]);
    if (++t < trainers.size()) continue;
    t = 0;
    if (++n < running.names.size()) continue;
    n = 0;
    ++running.step;
  }
}
BENCHMARK(BM_Step)->Arg(1250)->Arg(12500)->Unit(benchmark::kMicrosecond);

void BM_Reconnect(benchmark::State& state) {
  RunningCluster& running = Of(state.range(0));
  size_t n = 0;
  for (auto _ : state) {
    const NodeName& name = running.names[n++ % running.names.size()];
    running.Disconnect(name);
    running.Connect(name);
  }
}
BENCHMARK(BM_Reconnect)->Arg(1250)->Arg(12500)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
