// Whole CUDA trainer processes on one GPU.
#include "worker/trainer/testing/trainer_test.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_count.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

class GpuTrainerTest : public TrainerTest {
 protected:
  void SetUp() override {
    PACELINE_SKIP_WITHOUT_GPU();
    TrainerTest::SetUp();
    trainer_ = "worker/trainer/trainer_cuda";
    server_.clear();
  }

  // A job with a Llama, on tokens that this test makes.
  v1::JobSpec LlamaSpec(const std::string& changes) {
    const std::string path = directory_ + "/tokens.bin";
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 60'000; ++i) {
      const auto token = static_cast<uint16_t>((i * 7) % 512);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
    return Spec(1, absl::StrCat("device: CUDA precision: BF16 model { llama { preset: "
                                "LLAMA_PRESET_DEBUG layers: 2 vocab_size: 512 } } data { train: '",
                                path,
                                "' token_type: TOKEN_TYPE_UINT16 sequence_length: 64 } "
                                "optimizer { adamw {} learning_rate: 0.003 } steps: 40 ",
                                changes));
  }

  // Compares the means of the first and the last few losses, because single batches are small.
  static void ExpectFalling(const std::vector<double>& losses, size_t steps) {
    ASSERT_EQ(losses.size(), steps);
    const double first = std::accumulate(losses.begin(), losses.begin() + 5, 0.0);
    const double last = std::accumulate(losses.end() - 5, losses.end(), 0.0);
    EXPECT_LT(last, 0.8 * first);
  }
};

TEST_F(GpuTrainerTest, MlpLearns) {
  const auto daemon = RunJob(Spec(1, "device: CUDA steps: 60"));
  ExpectFalling(Values(*daemon, 0, "loss"), 60);
}

TEST_F(GpuTrainerTest, LlamaInBf16LearnsAndItsStepsAreTimedOnTheDevice) {
  const auto daemon = RunJob(LlamaSpec("clip_grad_norm: 1"));
  const std::vector<double> losses = Values(*daemon, 0, "loss");
  ExpectFalling(losses, 40);
  const auto ring = StepRingReader::Open(daemon->RingPath(0));
  ASSERT_TRUE(ring.ok()) << ring.status();
  const std::vector<StepRecord> records = ring->ReadFrom(0).records;
  ASSERT_EQ(records.size(), 40);
  for (const StepRecord& record : records) {
    EXPECT_GT(record.phase_ns[static_cast<size_t>(Phase::kForward)], 0);
    EXPECT_GT(record.phase_ns[static_cast<size_t>(Phase::kBackward)], 0);
    EXPECT_GT(record.grad_norm, 0);
    EXPECT_EQ(record.tokens, 4 * 64);
  }
}

// Staged by the side stream, read back through pinned memory. Sums on a GPU need not repeat to the
// last bit.
TEST_F(GpuTrainerTest, GoesOnFromACheckpoint) {
  const std::string saving = absl::StrCat("checkpoint { directory: '", directory_,
                                          "/out' every_steps: 20 at_end: false } ");
  const std::vector<double> whole = Values(*RunJob(LlamaSpec(saving)), 0, "loss");
  const std::string checkpoint =
      absl::StrCat(directory_, "/out/", FakeDaemon::JobId(), "/step-000000000020.g1");
  for (const char* how : {"", "cuda_graph: true "}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(LlamaSpec(absl::StrCat(how, saving)), 2, checkpoint);
    ASSERT_TRUE(daemon->Serve());
    ASSERT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
    const std::vector<double> resumed = Values(*daemon, 0, "loss");
    ASSERT_EQ(resumed.size(), 20u);
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(resumed[i], whole[20 + i], 0.05) << i;
    std::filesystem::remove_all(
        absl::StrCat(directory_, "/out/", FakeDaemon::JobId(), "/step-000000000040.g2"));
  }
}

TEST_F(GpuTrainerTest, StepsReplayedAsAGraphLearnAlike) {
  for (const char* passes : {"accumulation_steps: 1 ", "accumulation_steps: 2 "}) {
    const std::vector<double> eager = Values(*RunJob(LlamaSpec(passes)), 0, "loss");
    const std::vector<double> graph =
        Values(*RunJob(LlamaSpec(absl::StrCat(passes, "cuda_graph: true"))), 0, "loss");
    ExpectFalling(graph, eager.size());
    if (HasFatalFailure()) return;
    // Later the order of sums in bfloat16 makes a difference.
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(graph[i], eager[i], 0.05) << passes << i;
  }
}

TEST_F(GpuTrainerTest, OutOfMemoryIsToldWithTheAllocatorsFigures) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(1, "device: CUDA allow_chaos: true chaos { kind: OUT_OF_MEMORY step: 5 }"));
  EXPECT_TRUE(daemon->Serve());
  const v1::TrainerError error = daemon->LastWords(0).error();
  EXPECT_EQ(error.kind(), v1::FAILURE_OUT_OF_MEMORY) << error.message();
  EXPECT_NE(error.message().find("reserved"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace paceline
