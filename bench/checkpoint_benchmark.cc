// One rank of a training loop that saves checkpoints, or one that reads them. Several of them,
// started at the same time, make up a job; bench/checkpoint.py starts them.
//
// Prints one JSON object. Saving: {"steps": [[start, end] of each step], "saves": [{"begin",
// "durable", "blocked"} of each]}, nanoseconds, the first two of CLOCK_MONOTONIC; "durable" is when
// the rank's own part was, on rank 0 when the manifest was. Reading: {"seconds"}.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <deque>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/comm/cpu_platform.h"

namespace paceline {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string state;
  std::string store;
  std::string directory;
  int rank = 0;
  int ranks = 1;
  int saves = 0;
  int quiet_steps = 3;
  int products = 100;
  int read_threads = 2;
};

constexpr int64_t kProductSize = 512;
// The first step and the first save allocate memory that the others reuse.
constexpr int kSettlingSteps = 2;

uint64_t Now() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// This rank's part.
std::vector<ShardEntry> MakeState(const Options& options) {
  std::vector<ShardEntry> state;
  const Json ranks = Json::parse(std::ifstream(options.state));
  for (const Json& one : ranks.at(static_cast<size_t>(options.rank))) {
    const auto shape = one["shape"].get<std::vector<int64_t>>();
    state.push_back({one["name"], shape, 0, at::full(shape, 1.0 + options.rank, at::kFloat)});
  }
  return state;
}

// The other ranks.
class Peers {
 public:
  explicit Peers(const Options& options) {
    TrainerConfig config;
    config.interface = "lo";
    Membership membership;
    membership.rank = options.rank;
    membership.size = options.ranks;
    group_ = platform_.Connect(config, membership,
                               c10::make_intrusive<c10d::FileStore>(options.store, options.ranks),
                               absl::Seconds(60));
  }

  // Stands for the exchange of gradients at the end of a backward pass. Returns the sum.
  double Meet(double value = 0) {
    std::vector<at::Tensor> one = {at::full({1}, value)};
    group_->allreduce(one)->wait();
    return one[0].item<double>();
  }

 private:
  CpuPlatform platform_;
  c10::intrusive_ptr<c10d::Backend> group_;
};

// Forward and backward: work that only reads the state.
void Compute(int products) {
  static const at::Tensor left = at::rand({kProductSize, kProductSize});
  static const at::Tensor right = at::rand({kProductSize, kProductSize});
  at::Tensor product = at::empty({kProductSize, kProductSize});
  for (int i = 0; i < products; ++i) at::mm_out(product, left, right);
}

Manifest PartOf(const Options& options, int64_t step) {
  Manifest part;
  part.job_id = "bench";
  part.generation = 1;
  part.step = step;
  part.ranks = options.ranks;
  part.job_spec = "{}";
  return part;
}

// Does the controller's part: rank 0 may commit when all ranks have reported durable shards.
void WaitForParts(const std::string& directory, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = absl::StrCat(directory, "/", PartName(rank));
    while (::access(path.c_str(), F_OK) != 0) absl::SleepFor(absl::Milliseconds(1));
  }
}

class SavingLoop {
 public:
  explicit SavingLoop(const Options& options)
      : options_(options), peers_(options), state_(MakeState(options)), saver_(platform_, {}) {
    saver_.SetPlace(options.rank, options.ranks);
    int64_t bytes = 0;
    for (const ShardEntry& entry : state_) bytes += static_cast<int64_t>(entry.rows.nbytes());
    saver_.Reserve(bytes);
  }

  Json Run() {
    Steps(kSettlingSteps);
    for (int i = 0; i <= options_.saves; ++i) {
      Begin(i);
      // All ranks go on until all saves are durable, and then for some steps more.
      while (peers_.Meet(saves_.back().durable == 0) > 0) Steps(1);
      Steps(options_.quiet_steps);
    }
    Json saves = Json::array();
    for (const Save& save : saves_) {
      saves.push_back(
          {{"begin", save.begin}, {"durable", save.durable.load()}, {"blocked", save.blocked}});
    }
    return {{"steps", steps_}, {"saves", saves}};
  }

 private:
  struct Save {
    uint64_t begin = 0;
    uint64_t blocked = 0;
    std::atomic<uint64_t> durable{0};
  };

  void Begin(int number) {
    Save& save = saves_.emplace_back();
    save.begin = Now();
    const std::string directory =
        absl::StrCat(options_.directory, "/", CheckpointName({number + 1, 1}));
    saver_.Begin(directory, PartOf(options_, number + 1), state_, {},
                 [this, directory, &save](const ShardResult& result) {
                   PACELINE_CHECK(result.status.ok()) << result.status;
                   if (options_.rank != 0) {
                     save.durable = Now();
                     return;
                   }
                   WaitForParts(directory, options_.ranks);
                   saver_.Commit(directory, [&save](const absl::Status& status, double) {
                     PACELINE_CHECK(status.ok()) << status;
                     save.durable = Now();
                   });
                 });
    save.blocked = Now() - save.begin;
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      const uint64_t start = Now();
      Compute(options_.products);
      peers_.Meet();
      const uint64_t change = Now();
      saver_.BeforeChange();
      if (!saves_.empty()) saves_.back().blocked += Now() - change;
      for (ShardEntry& entry : state_) entry.rows.add_(1e-6);
      steps_.push_back({start, Now()});
    }
  }

  const Options options_;
  CpuPlatform platform_;
  Peers peers_;
  std::vector<ShardEntry> state_;
  std::deque<Save> saves_;
  std::vector<std::pair<uint64_t, uint64_t>> steps_;
  ShardSaver saver_;  // Last member: it calls back until it is destroyed.
};

absl::StatusOr<Json> Read(const Options& options) {
  Peers peers(options);
  const std::vector<ShardEntry> state = MakeState(options);
  std::vector<ReadTarget> targets;
  for (const ShardEntry& entry : state) targets.push_back({entry.name, entry.rows});
  peers.Meet();
  const uint64_t start = Now();
  PACELINE_ASSIGN_OR_RETURN(
      StateReader reader,
      StateReader::Open(options.directory, options.read_threads, {options.rank, options.ranks}));
  PACELINE_RETURN_IF_ERROR(reader.Read(targets));
  return Json{{"seconds", static_cast<double>(Now() - start) * 1e-9}};
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Saves or reads checkpoints.");
  app.add_option("--state", options.state, "JSON: the tensors of each rank")->required();
  app.add_option("--store", options.store, "file where the ranks meet")->required();
  app.add_option("--directory", options.directory, "of the job, or of the checkpoint to be read")
      ->required();
  app.add_option("--rank", options.rank, "of this process");
  app.add_option("--ranks", options.ranks, "of all");
  app.add_option("--saves", options.saves, "that are measured; 0: read");
  app.add_option("--quiet-steps", options.quiet_steps, "after each save");
  app.add_option("--products", options.products, "of matrices in a step");
  app.add_option("--read-threads", options.read_threads, "of each rank");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const absl::StatusOr<Json> result =
      options.saves > 0 ? absl::StatusOr<Json>(SavingLoop(options).Run()) : Read(options);
  if (!result.ok()) {
    std::cerr << "checkpoint_benchmark: " << result.status() << std::endl;
    return 1;
  }
  std::cout << *result << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
