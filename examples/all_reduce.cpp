// Ranks in C++ that add up tensors by gloo, without MPI and without Python.
//
// Build:      examples/build.sh /tmp/all_reduce
// Start:      paceline run --ranks 2 /tmp/all_reduce
// Or:         torchrun --no-python --nproc-per-node 2 /tmp/all_reduce
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  TORCH_CHECK(value != nullptr, name, " is not set: start this with paceline run or torchrun");
  return value;
}

int main() {
  const int rank = std::stoi(Variable("RANK"));
  const int ranks = std::stoi(Variable("WORLD_SIZE"));

  // Rank 0 opens the store in which the ranks meet, unless torchrun has opened it.
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  c10d::TCPStoreOptions place;
  place.port = static_cast<uint16_t>(std::stoi(Variable("MASTER_PORT")));
  place.isServer = rank == 0 && (agent == nullptr || std::string(agent) != "True");
  place.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::PrefixStore>(
      "all_reduce/" + Variable("TORCHELASTIC_RESTART_COUNT"),
      c10::make_intrusive<c10d::TCPStore>(Variable("MASTER_ADDR"), place));

  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  c10d::ProcessGroupGloo group(store, rank, ranks, options);

  at::Tensor sum = at::zeros({1});
  for (int step = 1; step <= 100; ++step) {
    std::vector<at::Tensor> mine = {at::full({1 << 16}, static_cast<float>(rank + step))};
    group.allreduce(mine)->wait();
    sum += mine[0].mean();
  }
  group.barrier()->wait();
  std::cout << "rank " << rank << " of " << ranks << ": sum " << sum.item<float>() << std::endl;
}
