// Collectives of ranks that are processes of this program (nccl_ranks.h).
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/gpu/nccl_ranks.h"

namespace paceline {
namespace {

double SumOverRanks(Group& group, double value, c10::Device device) {
  const at::Tensor tensor = at::full({1000}, value, at::TensorOptions().device(device));
  group.Sum(tensor);
  return tensor[999].item<double>();
}

void AllReduce(const NcclRank& own) {
  Groups& groups = own.groups;
  const c10::Device device = own.device;
  const int rank = own.config.rank();
  const int size = own.config.member.world_size;
  for (int round = 1; round <= 3; ++round) {
    Expect(SumOverRanks(groups.all(), rank + round, device) == size * (size - 1) / 2 + size * round,
           "the sum over all ranks");
  }
  // Made like a new plan's groups: on another thread, while sums over all ranks go on.
  const std::vector<int> pair = {rank / 2 * 2, rank / 2 * 2 + 1};
  std::shared_ptr<Group> made;
  std::thread maker([&] { made = groups.Make(pair, "test", 1); });
  SumOverRanks(groups.all(), 1, device);
  maker.join();
  Expect(SumOverRanks(*made, rank, device) == pair[0] + pair[1], "the sum over a pair");
  groups.all().Barrier();
}

void LosePeer(const NcclRank& own) {
  Groups& groups = own.groups;
  const c10::Device device = own.device;
  SumOverRanks(groups.all(), 1, device);
  if (own.config.rank() == 1) ::raise(SIGKILL);
  try {
    // An aborted collective may return; the next one then throws.
    for (int i = 0; i < 10; ++i) SumOverRanks(groups.all(), 1, device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
    // The device still works.
    Expect(at::arange(10, at::TensorOptions().device(device)).sum().item<int>() == 45,
           "the sum after the failure");
    return;
  }
  Expect(false, "nobody was told of the lost peer");
}

// A sum that is accepted is right, whatever happens to the other rank meanwhile.
void LosePeerInSum(const NcclRank& own) {
  Group& all = own.groups.all();
  const auto streams = own.platform.MakeDeviceStreams();
  const auto aside = streams->GoAside();
  const at::Tensor tensor =
      at::full({4 << 20}, 1.0, at::TensorOptions().device(own.device).dtype(at::kFloat));
  std::thread dies;
  if (own.config.rank() == 1) {
    dies = std::thread([] {
      absl::SleepFor(absl::Milliseconds(300));
      ::raise(SIGKILL);
    });
  }
  try {
    while (true) {
      at::Tensor(tensor).fill_(1);
      all.SumOnDevice(tensor, [&] {
        streams->Record(0);
        streams->Wait(0);
      });
      Expect(tensor.min().item<float>() == 2 && tensor.max().item<float>() == 2, "a sum");
    }
  } catch (const CollectiveError& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
  }
}

void RunRank(const NcclRank& own, const std::string& what) {
  if (what == "all_reduce") AllReduce(own);
  if (what == "lose_peer") LosePeer(own);
  if (what == "lose_peer_in_sum") LosePeerInSum(own);
}

class NcclTest : public NcclRanksTest {};

TEST_F(NcclTest, FourRanksSumOverAllAndOverPairsMadeMeanwhile) {
  RunRanks(4, "all_reduce");
  for (const Rank& rank : ranks_) EXPECT_EQ(rank.status, 0) << Log(rank);
}

TEST_F(NcclTest, SurvivorOfAKilledPeerLivesAndTells) {
  RunRanks(2, "lose_peer");
  if (IsSkipped()) return;
  EXPECT_EQ(ranks_[0].status, 0) << Log(ranks_[0]);
  EXPECT_TRUE(absl::StrContains(Log(ranks_[0]), "told: ")) << Log(ranks_[0]);
  EXPECT_TRUE(WIFSIGNALED(ranks_[1].status));
}

TEST_F(NcclTest, NoSumIsBelievedThatAKilledPeerHasLeft) {
  RunRanks(2, "lose_peer_in_sum");
  if (IsSkipped()) return;
  EXPECT_EQ(ranks_[0].status, 0) << Log(ranks_[0]);
  EXPECT_TRUE(absl::StrContains(Log(ranks_[0]), "told: ")) << Log(ranks_[0]);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::RunTestsOrRank(argc, argv, paceline::RunRank); }
