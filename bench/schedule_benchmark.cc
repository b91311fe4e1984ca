// One pass of the scheduler over 10,000 nodes and 1,000 jobs that wait: what the controller does
// after an event that matters to it, from its tables of jobs and nodes to the decision.
#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/schedule/schedule.h"
#include "controller/core/schedule/spaces.h"

namespace paceline {
namespace {

constexpr int kNodes = 10000;
constexpr int kWaiting = 1000;
constexpr int kSlots = 8;  // GPUs of a node.
constexpr int kNodesPerRack = 16;
constexpr int kIslandsPerRack = 4;

// The controller's tables.
class Tables {
 public:
  Tables() {
    for (int n = 0; n < kNodes; ++n) {
      Node node;
      node.facts.name = NodeName(absl::StrCat("node-", 10000 + n));
      node.contact = Contact::kReachable;
      node.facts.slots = kSlots;
      node.facts.gpus.assign(kSlots, "H200");
      auto& labels = node.facts.labels;
      labels["rack"] = absl::StrCat("rack-", n / kNodesPerRack);
      labels["island"] = absl::StrCat("island-", n / (kNodesPerRack / kIslandsPerRack));
      labels["kind"] = n % 2 == 0 ? "new" : "old";
      nodes.emplace(node.facts.name, std::move(node));
    }
  }

  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }

  Job& Add(int ranks, int priority = 0) {
    const JobId id(absl::StrCat("job-", ++number_));
    Job& job = jobs[id];
    job.request.id = id;
    job.request.name = "benchmark";
    job.request.ranks = ranks;
    job.request.device = Device::kCuda;
    job.request.priority = priority;
    job.request.checkpoints.directory = "/checkpoints";
    job.number = number_;
    return job;
  }

  // Running jobs of a node each hold `held(n)` slots of node n.
  void Fill(const std::function<int(int n)>& held) {
    int n = 0;
    for (const auto& [name, node] : nodes) {
      const int count = held(n++);
      if (count == 0) continue;
      Job& job = Add(count);
      job.state = JobState::kRunning;
      job.started = absl::UnixEpoch() + absl::Seconds(Below(1000000));
      for (int number = 0; number < count; ++number) {
        job.ranks.emplace_back().slot = {name, number, node.facts.labels.at("rack")};
      }
    }
  }

  void Wait(const std::function<int()>& ranks) {
    for (int j = 0; j < kWaiting; ++j) Add(ranks());
  }

  // What Cluster::Schedule does before it acts.
  ScheduleDecision Pass() {
    if (!index_.has_value()) index_.emplace(IndexOf(nodes));
    ScheduleInput input;
    input.queues = &queues_;
    input.index = &*index_;
    Survey(nodes, jobs, input);
    for (const auto& [id, job] : jobs) {
      if (job.state == JobState::kQueued) input.waiting.push_back({&job, "", false});
    }
    input.reservations = reservations_;
    ScheduleDecision decision = DecideSchedule(std::move(input));
    reservations_ = decision.reservations;
    return decision;
  }

  void ForgetIndex() { index_.reset(); }

  std::map<NodeName, Node> nodes;
  std::map<JobId, Job> jobs;

 private:
  std::mt19937_64 random_{1};  // NOLINT(bugprone-random-generator-seed): the same each time.
  int64_t number_ = 0;
  const Queues queues_ = DefaultQueues();
  std::optional<NodeIndex> index_;
  std::vector<Reservation> reservations_;
};

// All slots are held; nobody can start.
void Full(Tables& tables) {
  tables.Fill([](int) { return kSlots; });
  tables.Wait([&] { return 1 << tables.Below(10); });
}

// All slots are free; nearly all jobs start.
void Empty(Tables& tables) {
  tables.Wait([&] { return 1 + tables.Below(128); });
}

// Most nodes have one to three free slots; jobs of all sizes.
void Fragmented(Tables& tables) {
  tables.Fill([&](int) { return kSlots - tables.Below(4); });
  tables.Wait([&] { return 1 << tables.Below(12); });
}

// CPU and GPU jobs, half of each kind's slots held.
void Mixed(Tables& tables) {
  tables.Fill([](int n) { return n % 2 == 0 ? kSlots : 0; });
  tables.Wait([&] { return 1 << tables.Below(11); });
  for (auto& [id, job] : tables.jobs) {
    if (tables.Below(2) == 0) job.request.device = Device::kCpu;
  }
}

// Twelve more labels and some taints per node; each job has a policy of its own.
void Labels(Tables& tables) {
  tables.Fill([&](int) { return tables.Below(kSlots + 1); });
  tables.Wait([&] { return 1 << tables.Below(8); });
  int n = 0;
  for (auto& [name, node] : tables.nodes) {
    for (int l = 0; l < 12; ++l) {
      node.facts.labels[absl::StrCat("label-", l)] = absl::StrCat(tables.Below(2 + l));
    }
    if (++n % 10 == 0) node.facts.labels["taint.team"] = absl::StrCat(n % 7);
  }
  for (auto& [id, job] : tables.jobs) {
    PlacementPolicy& policy = job.request.placement;
    if (job.state != JobState::kQueued) continue;
    for (int l = 0; l < 3; ++l) {
      const int label = tables.Below(12);
      policy.labels[absl::StrCat("label-", label)] = absl::StrCat(tables.Below(2 + label));
    }
    policy.tolerate = {absl::StrCat("team=", tables.Below(7))};
    policy.exclude_nodes = {NodeName(absl::StrCat("node-", 10000 + tables.Below(kNodes)))};
    if (tables.Below(4) == 0) policy.same = "rack";
  }
}

// Half of the slots are free; jobs of replicas of 2 to 32 ranks, half of which require domains.
void Sharded(Tables& tables) {
  tables.Fill([&](int) { return tables.Below(kSlots + 1); });
  tables.Wait([&] { return 1; });
  for (auto& [id, job] : tables.jobs) {
    if (job.state != JobState::kQueued) continue;
    job.request.shards = 2 << tables.Below(5);
    job.request.ranks = job.request.shards * (1 + tables.Below(8));
    if (tables.Below(2) == 0) job.request.placement.replica = ReplicaPlacement::kRequire;
  }
}

// Half of the nodes do not answer, and every job needs more than the other half.
void HalfAway(Tables& tables) {
  int n = 0;
  for (auto& [name, node] : tables.nodes) {
    if (++n % 2 == 0) node.contact = Contact::kUnreachable;
  }
  tables.Wait([&] { return kNodes * kSlots / 2 + 1 + tables.Below(1000); });
}

// All slots are held by jobs of a low priority; the first of those that wait displaces some.
void Preemption(Tables& tables) {
  tables.Fill([](int) { return kSlots; });
  for (auto& [id, job] : tables.jobs) job.request.priority = -1;
  tables.Wait([&] { return 1 << tables.Below(10); });
}

void BM_Pass(benchmark::State& state, void (*shape)(Tables&)) {
  Tables tables;
  shape(tables);
  ScheduleDecision decision = tables.Pass();  // Indexes the labels first, as in a controller.
  for (auto _ : state) decision = tables.Pass();
  state.counters["started"] = static_cast<double>(decision.starts.size());
  state.counters["displaced"] = static_cast<double>(decision.preemptions.size());
}
// The pass after a start of the controller, or a change of labels.
void BM_FirstPass(benchmark::State& state, void (*shape)(Tables&)) {
  Tables tables;
  shape(tables);
  for (auto _ : state) {
    tables.ForgetIndex();
    tables.Pass();
  }
}
BENCHMARK_CAPTURE(BM_Pass, full, Full)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, empty, Empty)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, fragmented, Fragmented)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, mixed, Mixed)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, labels, Labels)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, sharded, Sharded)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, half_away, HalfAway)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Pass, preemption, Preemption)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_FirstPass, labels_first_pass, Labels)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
