// One scrape: a worker's with 8 ranks, a controller's with 10,000 ranks in 25 jobs on 1,250 nodes;
// and what the controller's loop does once a second to keep its metrics. The counter `bytes` is the
// size of the answer.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/metrics/metrics.h"
#include "proto/worker.pb.h"
#include "worker/daemon/metrics/metrics.h"

namespace paceline {
namespace {

constexpr int kWorkerRanks = 8;
constexpr int kNodes = 1250;
constexpr int kSlots = 8;  // GPUs of a node.
constexpr int kJobs = 25;
constexpr int kRanks = kNodes * kSlots / kJobs;  // Of a job.

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

// A rank of an hsgd job on a GPU that saves checkpoints: every figure is known.
v1::RankFigures FiguresOf(int rank) {
  v1::RankFigures figures;
  figures.set_steps(50);
  figures.set_tokens_per_s(12345.6 + rank);
  figures.set_mfu(0.4123);
  figures.set_mfu_wall(0.4012);
  figures.set_loss(2.34567);
  figures.set_grad_norm(0.98765);
  figures.set_learning_rate(0.0003);
  figures.set_drift(0.0123);
  v1::MemoryFigures& memory = *figures.mutable_memory();
  memory.set_rss(1234567890);
  memory.set_rss_peak(1334567890);
  memory.set_active(61234567890);
  memory.set_active_peak(71234567890);
  memory.set_reserved(73234567890);
  memory.set_reserved_peak(74234567890);
  memory.set_small_pool(234567890);
  memory.set_large_pool(73000000000);
  memory.set_capacity(149234567890);
  memory.set_alloc_retries(0);
  memory.set_ooms(0);
  for (const int size : {8, 64, 512}) {
    v1::LevelFigures& level = *figures.add_levels();
    level.set_group_size(size);
    level.set_count(1000);
    level.set_seconds(123.456);
    level.set_bytes(123456789012);
  }
  return figures;
}

void BM_Worker(benchmark::State& state) {
  WorkerMetrics metrics("1.0");
  for (int rank = 0; rank < kWorkerRanks; ++rank) {
    const TrainerId id{JobId("job-5acf0da8f7e8"), Generation(3), Rank(rank)};
    v1::Progress progress;
    progress.set_step(12345 + rank);
    progress.set_loss(2.34567);
    progress.set_step_s(0.345678);
    std::array<uint64_t, kPhases> phases;
    phases.fill(123456789012);
    metrics.SetTrainer(id, progress, phases);
    v1::PlanStatus plan;
    plan.set_active_version(4);
    metrics.SetFigures(id, FiguresOf(rank), plan);
    v1::CheckpointFigures checkpoints;
    checkpoints.set_saves(12);
    checkpoints.set_write_s(34.5678);
    metrics.SetCheckpoints(id, checkpoints);
  }
  size_t bytes = 0;
  for (auto _ : state) bytes = metrics.Text().size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Worker)->Unit(benchmark::kMillisecond);

// All nodes are full.
class FullCluster {
 public:
  FullCluster() : cluster(Cluster::Options()), metrics("1.0") {
    std::vector<Node> nodes;
    for (int n = 0; n < kNodes; ++n) nodes.push_back(MakeNode(n));
    std::vector<Job> jobs;
    for (int j = 0; j < kJobs; ++j) jobs.push_back(MakeJob(j));
    cluster.Restore(std::move(jobs), std::move(nodes), At(0));
    metrics.ShowCluster(cluster, At(1));
    for (const auto& [id, job] : cluster.jobs()) {
      v1::StepBatch batch;
      batch.mutable_id()->set_job_id(id.value());
      v1::StepRecord& record = *batch.add_records();
      record.set_total_ns(123'456'789);
      record.set_forward_ns(40'000'000);
      record.set_backward_ns(60'000'000);
      record.set_samples(32);
      record.set_tokens(65536);
      metrics.AddSteps(id, batch);
    }
    Refresh();
  }

  void Refresh() {
    ++seconds_;
    for (const JobId& id : metrics.RefreshNodes(cluster)) {
      metrics.RefreshJob(id, cluster, stragglers, At(seconds_));
    }
  }

  Cluster cluster;
  Stragglers stragglers{StragglerOptions(), [](const auto&, const auto&) { return ""; },
                        [](const auto&, const auto&) { return ""; }};
  ControllerMetrics metrics;

 private:
  static NodeName NameOf(int n) { return NodeName(absl::StrCat("node-", 10000 + n)); }
  static Node MakeNode(int n) {
    Node node;
    node.facts.name = NameOf(n);
    node.facts.slots = kSlots;
    node.facts.gpus.assign(kSlots, "NVIDIA H200");
    node.facts.labels["rack"] = absl::StrCat("rack-", n / 16);
    node.facts.version = "0.1.0";
    node.last_report = At(0.123456).wall;
    return node;
  }
  static Job MakeJob(int j) {
    JobRequest request;
    request.id = JobId(absl::StrCat("job-5acf0da8f7", 10 + j));
    request.name = absl::StrCat("llama-", j);
    request.ranks = kRanks;
    request.device = Device::kCuda;
    request.checkpoints.directory = "/checkpoints";
    Job job = NewJob(std::move(request), j, At(0));
    std::vector<Slot> slots;
    for (int r = 0; r < kRanks; ++r) {
      const int slot = j * kRanks + r;
      slots.push_back({NameOf(slot / kSlots), slot % kSlots});
    }
    PlaceJob(job, std::move(slots), At(0));
    job.state = JobState::kRunning;
    job.started = At(0).wall;
    for (RankState& rank : job.ranks) {
      rank.report.state = TrainerState::kRunning;
      rank.report.progress.step = 12345;
      rank.report.progress.loss = 2.34567;
      rank.report.progress.step_time = absl::Milliseconds(345);
      rank.report.progress.samples_per_second = 123.4;
      rank.report.figures.tokens_per_second = 12345.6;
      rank.report.figures.mfu = 0.4123;
    }
    return job;
  }

  double seconds_ = 1;
};

void BM_Controller(benchmark::State& state) {
  FullCluster full;
  size_t bytes = 0;
  for (auto _ : state) bytes = full.metrics.Text(12345678).size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Controller)->Unit(benchmark::kMillisecond);

void BM_Refresh(benchmark::State& state) {
  FullCluster full;
  for (auto _ : state) full.Refresh();
}
BENCHMARK(BM_Refresh)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
