// Measures how long a sum over the ranks of one machine takes, with a process per rank, for each
// algorithm: Gloo's ring, rank 0, recursive halving and doubling, and memory that the ranks share.
// Prints JSON to stdout.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/group.h"

namespace paceline {
namespace {

// For powers of two.
void HalveAndDouble(Group& group, int rank, const at::Tensor& tensor) {
  const at::Tensor received = at::empty_like(tensor);
  const auto exchange = [&](int peer, const at::Tensor& out, const at::Tensor& in) {
    if (rank < peer) {
      group.Send(out, peer);
      group.Receive(in, peer);
    } else {
      group.Receive(in, peer);
      group.Send(out, peer);
    }
  };
  int64_t first = 0;
  int64_t count = tensor.numel();
  for (int bit = 1; bit < group.size(); bit *= 2) {
    count /= 2;
    const int64_t kept = first + ((rank & bit) != 0 ? count : 0);
    const int64_t given = first + ((rank & bit) != 0 ? 0 : count);
    exchange(rank ^ bit, tensor.narrow(0, given, count), received.narrow(0, kept, count));
    tensor.narrow(0, kept, count).add_(received.narrow(0, kept, count));
    first = kept;
  }
  for (int bit = group.size() / 2; bit > 0; bit /= 2) {
    const int64_t other = (rank & bit) != 0 ? first - count : first + count;
    exchange(rank ^ bit, tensor.narrow(0, first, count), tensor.narrow(0, other, count));
    first = std::min(first, other);
    count *= 2;
  }
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Time per sum on rank 0, for sums that follow each other.
nlohmann::json Measure(Group& before, const std::function<void()>& sum, int rounds) {
  sum();
  before.Barrier();
  const double cpu = CpuSeconds();
  const absl::Time start = absl::Now();
  for (int round = 0; round < rounds; ++round) sum();
  return {{"ms", absl::ToDoubleMilliseconds(absl::Now() - start) / rounds},
          {"cpu_ms", 1e3 * (CpuSeconds() - cpu) / rounds}};
}

nlohmann::json RunRank(int rank, int ranks, const std::string& store, int64_t kilobytes,
                       int rounds) {
  TrainerConfig config;
  config.member.world_size = ranks;
  config.member.rank = rank;
  config.id = {JobId("job-0"), Generation(1), Rank(rank)};
  config.startup_timeout = absl::Seconds(300);
  config.interface = "lo";
  CpuPlatform platform;
  Groups groups(platform, config, c10::Device(c10::kCPU), store);
  Group& gloo = groups.all();
  const auto shared = groups.MakeOfAll("payloads", 1, Groups::Traffic::kOnHost);
  const at::Tensor tensor = at::full({kilobytes << 8}, 1, at::kFloat);
  const at::Tensor few = at::full({28}, 1, at::kDouble);
  const std::map<std::string, std::function<void()>> ways = {
      {"ring", [&] { gloo.Sum(tensor); }},
      {"rank 0", [&] { gloo.SumFew(tensor); }},
      {"halving", [&] { HalveAndDouble(gloo, rank, tensor); }},
      {"shared", [&] { shared->Sum(tensor); }},
      {"28 by rank 0", [&] { gloo.SumFew(few); }},
      {"28 shared", [&] { shared->SumFew(few); }}};
  nlohmann::json times;
  for (const auto& way : ways) times[way.first] = Measure(gloo, way.second, rounds);
  gloo.Barrier();
  return times;
}

int Run(int argc, char** argv) {
  int ranks = 8;
  int64_t kilobytes = 256;
  int rounds = 30;
  CLI::App app("How long a sum over processes takes");
  app.add_option("--ranks", ranks, "processes");
  app.add_option("--kilobytes", kilobytes, "of float32 on each");
  app.add_option("--rounds", rounds, "sums of each way");
  CLI11_PARSE(app, argc, argv);
  std::vector<int> pipes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
      int port = 0;
      if (read(ends[0], &port, sizeof(port)) != sizeof(port)) _exit(1);
      const nlohmann::json times =
          RunRank(rank, ranks, absl::StrCat("127.0.0.1:", port), kilobytes, rounds);
      if (rank == 0) std::cout << times.dump() << std::endl;
      _exit(0);
    }
    close(ends[0]);
    pipes.push_back(ends[1]);
  }
  const StoreServer store;
  const int port = store.port();
  for (const int pipe : pipes) {
    if (write(pipe, &port, sizeof(port)) != sizeof(port)) return 1;
  }
  int result = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) result = 1;
  }
  return result;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Run(argc, argv); }
