// How real trainer processes end after a failure, and what they leave behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/image_shard/image_shard.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/object_store/testing/object_server.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

constexpr char kForever[] = "steps: 100000000 log_every: 100 ";

class TrainerFailureTest : public TrainerTest {
 protected:
  // Runs a job in which rank `rank` must exit with 1 and these last words.
  std::unique_ptr<FakeDaemon> ExpectFailure(const v1::JobSpec& spec, int rank, v1::FailureKind kind,
                                            const std::string& text) {
    std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(spec);
    EXPECT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_code(rank), 1) << daemon->Log(rank);
    ExpectWords(*daemon, rank, kind, text);
    return daemon;
  }

  static void ExpectWords(const FakeDaemon& daemon, int rank, v1::FailureKind kind,
                          const std::string& text) {
    ASSERT_TRUE(daemon.HasLastWords(rank)) << daemon.Log(rank);
    const v1::TrainerError error = daemon.LastWords(rank).error();
    EXPECT_EQ(error.kind(), kind) << error.ShortDebugString();
    EXPECT_TRUE(absl::StrContains(error.message(), text)) << error.message();
    EXPECT_EQ(daemon.status(rank).error().kind(), kind) << "the daemon must have heard it too";
  }

  static bool Running(const FakeDaemon& daemon, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (daemon.status(rank).state() != v1::TRAINER_RUNNING) return false;
    }
    return true;
  }

  // Waits until every rank has done `steps` steps.
  static void WaitForSteps(FakeDaemon& daemon, int ranks, uint64_t steps) {
    ASSERT_TRUE(daemon.Serve([&] { return Running(daemon, ranks); }));
    for (int rank = 0; rank < ranks; ++rank) {
      absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(rank));
      ASSERT_TRUE(ring.ok()) << ring.status();
      const absl::Time deadline = absl::Now() + absl::Seconds(30);
      while (ring->Written() < steps && absl::Now() < deadline)
        absl::SleepFor(absl::Milliseconds(1));
      ASSERT_GE(ring->Written(), steps);
    }
  }
};

TEST_F(TrainerFailureTest, ExceptionIsAnErrorAndTheOthersSayThatACollectiveFailed) {
  const auto daemon =
      ExpectFailure(Spec(3, "allow_chaos: true chaos { rank: 1 step: 5 kind: THROW }"), 1,
                    v1::FAILURE_ERROR, "injected fault before step 5");
  for (int rank : {0, 2}) {
    EXPECT_EQ(daemon->exit_code(rank), 1);
    ExpectWords(*daemon, rank, v1::FAILURE_COLLECTIVE, "");
  }
}

TEST_F(TrainerFailureTest, AllocationThatFailsIsOutOfMemory) {
  ExpectFailure(Spec(1, "allow_chaos: true chaos { step: 2 kind: OUT_OF_MEMORY }"), 0,
                v1::FAILURE_OUT_OF_MEMORY, "1152921504606846976 bytes");
}

TEST_F(TrainerFailureTest, AbortExitAndKillLeaveTheirSignalOrCodeAndNoWords) {
  for (const char* kind : {"ABORT", "EXIT", "KILL"}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Spec(1, absl::StrCat("allow_chaos: true chaos { step: 2 kind: ", kind, " }")));
    ASSERT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_signal(0), kind[0] == 'A' ? SIGABRT : kind[0] == 'K' ? SIGKILL : 0);
    EXPECT_EQ(daemon->exit_code(0), kind[0] == 'E' ? 42 : -1);
    EXPECT_FALSE(daemon->HasLastWords(0));
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(0));
    ASSERT_TRUE(ring.ok());
    EXPECT_EQ(ring->Live().step, 2u);
  }
}

// Nearly always at once. Gloo does not wake a rank whose message to a lost one is partly sent: that
// one, and who waits for it, end by the collective's timeout.
TEST_F(TrainerFailureTest, KilledRankEndsTheOthers) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(4, absl::StrCat(kForever, "collective_timeout_s: 20")));
  WaitForSteps(*daemon, 4, 3);
  daemon->Signal(2, SIGKILL);
  ASSERT_TRUE(daemon->Serve());
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(daemon->exit_code(rank), 1);
    ExpectWords(*daemon, rank, v1::FAILURE_COLLECTIVE, "");
  }
}

TEST_F(TrainerFailureTest, RankThatHangsEndsTheOthersAfterTheCollectiveTimeout) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(2,
                      "collective_timeout_s: 0.5 allow_chaos: true chaos { rank: 1 step: 5 kind: "
                      "SLEEP seconds: 3600 }"));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(0); }));
  EXPECT_EQ(daemon->exit_code(0), 1);
  ExpectWords(*daemon, 0, v1::FAILURE_COLLECTIVE, "");
  EXPECT_FALSE(daemon->ended(1));
}

TEST_F(TrainerFailureTest, UnusableInputIsNamed) {
  const auto kind = v1::FAILURE_INPUT;
  ExpectFailure(Spec(1, "data { train: '/nowhere/train.shard' }"), 0, kind,
                "data.train: cannot open /nowhere/train.shard");
  ExpectFailure(Spec(1, "batch_per_rank: 201"), 0, kind, "has 200 samples, less than the 201");
  ExpectFailure(Spec(1,
                     "batch_per_rank: 60 recovery { max_failures: 1 max_ranks: 4 batch: "
                     "KEEP_RANK_BATCH }"),
                0, kind,
                "has 200 samples, less than the 240 of one batch of all ranks, as many as the job "
                "may have (ranks, recovery.max_ranks)");
  ExpectFailure(Spec(1, "init_from: '/nowhere/weights.safetensors'"), 0, kind,
                "/nowhere/weights.safetensors");
  ExpectFailure(Spec(1, "device: CUDA"), 0, kind, "this is the trainer for CPUs");
  ExpectFailure(Spec(1, "steps: -3"), 0, kind, "steps");
  ExpectFailure(Spec(2, "shards: 2"), 0, kind, "a mlp cannot be sharded");
}

TEST_F(TrainerFailureTest, DataThatIsCutShortWhileTrainingIsNamedWithItsOffset) {
  const std::string path = directory_ + "/tokens.u16";
  std::ofstream(path, std::ios::binary) << std::string(200000, '\1');  // Tokens 257.
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Spec(1, absl::StrCat(kForever,
                           "model { llama { dim: 8 layers: 1 heads: 2 kv_heads: 2 ffn_dim: 8 "
                           "vocab_size: 258 } } data { train: '",
                           path, "' token_type: TOKEN_TYPE_UINT16 sequence_length: 16 }")));
  WaitForSteps(*daemon, 1, 3);
  std::filesystem::resize_file(path, 8192);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 1);
  ExpectWords(*daemon, 0, v1::FAILURE_INPUT, path + ": at offset 8192: ");
}

TEST_F(TrainerFailureTest, AllTensorsThatDoNotFitAreListedAtOnce) {
  RunJob(Spec(1, absl::StrCat("checkpoint { directory: '", directory_, "' }")));
  v1::JobSpec spec =
      Spec(1, absl::StrCat("init_from: '", directory_, "/job-0123456789ab/final.safetensors'"));
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  spec.mutable_model()->mutable_mlp()->add_hidden(16);
  spec.mutable_model()->mutable_mlp()->add_hidden(16);
  const auto daemon = ExpectFailure(spec, 0, v1::FAILURE_INPUT, "layers.2.bias is missing");
  const std::string message = daemon->LastWords(0).error().message();
  EXPECT_TRUE(absl::StrContains(message, "layers.0.weight has shape [32, 64] and needs [16, 64]"))
      << message;
  EXPECT_TRUE(absl::StrContains(message, "layers.1.bias has shape [10] and needs [16]"));
}

TEST_F(TrainerFailureTest, UnwritableCheckpointDirectoryIsNoticedBeforeTheFirstStep) {
  ExpectFailure(Spec(1, "checkpoint { directory: '/proc/nowhere' }"), 0, v1::FAILURE_INPUT,
                "/proc/nowhere");
}

TEST_F(TrainerFailureTest, StopEndsTrainingAtTheNextStepWithoutFailure) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(2, kForever));
  WaitForSteps(*daemon, 2, 3);
  daemon->Signal(0, SIGTERM);
  daemon->Signal(1, SIGTERM);
  ASSERT_TRUE(daemon->Serve());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    ASSERT_TRUE(daemon->HasLastWords(rank));
    EXPECT_FALSE(daemon->LastWords(rank).has_error());
  }
}

// The rank would ask again for two minutes, and then fail.
TEST_F(TrainerFailureTest, StopEndsTrainingThatWaitsForAnObjectOfAStoreThatIsAway) {
  constexpr uint32_t kSide = 64;
  constexpr uint32_t kImages = 2048;  // With their labels, a little more than two blocks of 4 MiB.
  const std::string shard = directory_ + "/large.shard";
  ASSERT_TRUE(WriteImageShard(shard, {1, kSide, kSide, 10}, std::vector<uint32_t>(kImages, 1),
                              std::vector<uint8_t>(kImages * kSide * kSide, 7))
                  .ok());
  std::ifstream file(shard, std::ios::binary);
  ObjectServer server;
  server.Put("/large", std::string(std::istreambuf_iterator<char>(file), {}));
  server.SetFault([](const ObjectServer::Request& request, int) -> std::optional<std::string> {
    const auto range = request.headers.find("range");
    const bool is_first =
        range != request.headers.end() && absl::StartsWith(range->second, "bytes=0-");
    if (is_first) return std::nullopt;
    return ObjectServer::Error("503 Slow Down");
  });
  object_stores_.add_allowed(server.url());
  object_stores_.set_cache_directory(directory_ + "/objects");
  object_stores_.set_cache_bytes(64 << 20);
  v1::JobSpec spec = Spec(1, absl::StrCat(kForever, "data { order: SEQUENTIAL }"));
  spec.mutable_data()->set_train(server.url() + "/large");
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  // Of the first block there are 1021 images, four for each step.
  WaitForSteps(*daemon, 1, 255);
  daemon->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  ASSERT_TRUE(daemon->HasLastWords(0));
  EXPECT_FALSE(daemon->LastWords(0).has_error());
}

TEST_F(TrainerFailureTest, StopBeforeTheRendezvousEndsTheProcessAtOnce) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(2, "data { train: '" + directory_ + "/train.shard' }"));
  // Rank 0 waits in vain for rank 1.
  daemon->Signal(1, SIGSTOP);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).state() == v1::TRAINER_READY; }));
  daemon->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(0); }));
  EXPECT_EQ(daemon->exit_code(0), 0);
}

TEST_F(TrainerFailureTest, TrainingGoesOnWhileTheDaemonIsAway) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(2, kForever));
  WaitForSteps(*daemon, 2, 3);
  daemon->GoAway();
  absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(0));
  ASSERT_TRUE(ring.ok());
  const uint64_t then = ring->Written();
  while (ring->Written() < then + 10) absl::SleepFor(absl::Milliseconds(1));
  const int before[] = {daemon->statuses(0), daemon->statuses(1)};
  daemon->ComeBack();
  // Each trainer sends its whole status to the new daemon.
  ASSERT_TRUE(daemon->Serve(
      [&] { return daemon->statuses(0) > before[0] && daemon->statuses(1) > before[1]; }));
  EXPECT_TRUE(Running(*daemon, 2));
  EXPECT_FALSE(daemon->ended(0) || daemon->ended(1));
}

TEST_F(TrainerFailureTest, OrphanEndsItselfAndSaysWhy) {
  const auto daemon = MakeDaemon({"--orphan-timeout-s", "0.2"});
  daemon->Launch(Spec(1, kForever));
  WaitForSteps(*daemon, 1, 3);
  daemon->GoAway();
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 1);
  ASSERT_TRUE(daemon->HasLastWords(0));
  EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_ORPHANED);
}

TEST_F(TrainerFailureTest, LogIsCutIntoSegmentsThatJoinWithoutGapOrOverlap) {
  const auto daemon = MakeDaemon({"--log-segment-bytes", "2000"});
  daemon->Launch(Spec(1, "steps: 100000000 log_every: 1"));
  const std::string log = daemon->TrainerDirectory(0) + "/log";
  ASSERT_TRUE(daemon->Serve([&] { return Running(*daemon, 1); }));
  const auto segments = [&] {
    std::map<int64_t, int64_t> sizes;
    for (const auto& entry : std::filesystem::directory_iterator(log)) {
      if (entry.path().extension() != ".log") continue;
      sizes[std::stoll(entry.path().stem())] = static_cast<int64_t>(entry.file_size());
    }
    return sizes;
  };
  while (segments().size() < 3) absl::SleepFor(absl::Milliseconds(10));
  daemon->Signal(0, SIGKILL);
  ASSERT_TRUE(daemon->Serve());
  int64_t next = 0;
  for (const auto& [base, size] : segments()) {
    EXPECT_EQ(base, next);
    next = base + size;
  }
}

}  // namespace
}  // namespace paceline
