// Several ranks of NCCL on one GPU. NCCL refuses two ranks on one device of one host, so each
// says that it is another host, and they talk over sockets. Where NCCL refuses that too, the
// tests are skipped with its reason.
//
// Each rank is a process of the test's own program: `member RANK SIZE STORE_PORT WHAT`.
#ifndef TESTS_GPU_NCCL_RANKS_H_
#define TESTS_GPU_NCCL_RANKS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/trainer/comm/cuda_platform.h"
#include "worker/trainer/comm/group.h"

namespace paceline {

// A rank: its opened platform, and the groups that it is in.
struct NcclRank {
  const TrainerConfig& config;
  CudaPlatform& platform;
  c10::Device device;
  Groups& groups;
};

// Ends the process if it does not hold.
void Expect(bool holds, const char* what);

// To be called by main. If the program was started as a rank, runs `rank` with WHAT and does not
// return; else runs the tests.
int RunTestsOrRank(int argc, char** argv,
                   const std::function<void(const NcclRank&, const std::string& what)>& rank);

// The tests' own process does not use the GPU.
class NcclRanksTest : public testing::Test {
 protected:
  struct Rank {
    pid_t pid;
    std::string log;
    int status = 0;
  };

  void SetUp() override;

  // Runs `size` ranks to their ends; skips the test if NCCL refuses.
  void RunRanks(int size, const std::string& what);
  static std::string Log(const Rank& rank);

  std::vector<Rank> ranks_;

 private:
  void Spawn(int rank, int size, int port, const std::string& what);
};

}  // namespace paceline

#endif  // TESTS_GPU_NCCL_RANKS_H_
