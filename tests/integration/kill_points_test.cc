// Whatever is killed while checkpoints are made, the newest complete one is sound and never gets
// older, and the job continues from it or a newer one.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/core/checkpoint_key.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

constexpr int kParts = 4;   // Run at the same time.
constexpr int kKills = 25;  // In each.
constexpr int kRanks = 2;
constexpr int kWorkers = 2;

v1::JobSpec SavingJob(const TestCluster& cluster) {
  v1::JobSpec spec = cluster.SmallJob(kRanks, 1000000000);
  spec.mutable_data()->clear_eval();
  spec.set_log_every(1000);
  spec.set_max_restarts(1000000);
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 256);
  spec.mutable_model()->mutable_mlp()->add_hidden(256);
  // About 280 KB for each rank, which take 140 ms; a save is under way most of the time.
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/checkpoints");
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_write_limit_mb_s(2);
  spec.mutable_checkpoint()->set_keep_latest(2);
  spec.set_allow_chaos(true);
  v1::Fault* slow = spec.add_chaos();
  slow->set_rank(-1);
  slow->set_kind(v1::SLEEP);
  slow->set_seconds(0.008);
  slow->set_steps(spec.steps());
  return spec;
}

// Step of the checkpoint in this directory; 0 if there is none.
int64_t StepOf(const std::string& directory) {
  const auto key = ParseCheckpointName(directory.substr(directory.rfind('/') + 1));
  return key.has_value() ? key->step : 0;
}

class KillPointsTest : public testing::TestWithParam<int> {
 protected:
  // The newest complete checkpoint of the job.
  v1::Checkpoint Newest() {
    for (v1::Checkpoint& one : cluster_.ListCheckpoints(id_)) {
      if (one.state() == v1::CHECKPOINT_COMPLETE) return std::move(one);
    }
    return {};
  }

  bool IsComplete(const v1::Checkpoint& checkpoint) {
    const std::vector<v1::Checkpoint> listed = cluster_.ListCheckpoints(id_);
    return std::any_of(listed.begin(), listed.end(), [&](const v1::Checkpoint& one) {
      return one.directory() == checkpoint.directory() && one.state() == v1::CHECKPOINT_COMPLETE;
    });
  }

  // The same, and checks that it is sound. A checkpoint that was removed for newer ones while it
  // was read does not count.
  v1::Checkpoint NewestSound() {
    while (true) {
      v1::Checkpoint newest = Newest();
      if (newest.directory().empty()) return newest;
      const auto damages = VerifyCheckpoint(newest.directory(), [](int64_t, int64_t) {});
      const bool sound = damages.ok() && damages->empty();
      if (!sound && !IsComplete(newest)) continue;
      EXPECT_TRUE(sound) << damages.status() << " "
                         << (damages.ok() ? absl::StrJoin(*damages, "\n") : "");
      return newest;
    }
  }

  // Kills somebody; true if a trainer.
  bool Kill() {
    const uint64_t victim = random_() % 4;
    if (victim == 0) {
      cluster_.KillController();
      cluster_.StartController();
      return false;
    }
    if (victim == 1) {
      const int worker = static_cast<int>(random_() % kWorkers);
      cluster_.KillWorker(worker);
      cluster_.StartWorker(worker);
      return false;
    }
    const v1::Job job = cluster_.Get(id_);
    const int64_t pid = job.ranks(static_cast<int>(random_() % kRanks)).pid();
    return kill(static_cast<pid_t>(pid), SIGKILL) == 0;
  }

  TestCluster cluster_{kWorkers, 1};
  std::string id_;
  const uint64_t seed_ = std::random_device()();  // Other points in each run.
  std::mt19937_64 random_{seed_};
};

TEST_P(KillPointsTest, TheNewestCompleteCheckpointIsSoundAfterEachOfThem) {
  id_ = cluster_.Submit(SavingJob(cluster_)).id();
  v1::Checkpoint newest;
  int in_progress = 0;
  int restarts = 0;
  int64_t known_before = 0;  // Step of the newest complete one before the latest restart.
  std::set<std::string> restored;
  std::string history;  // Kills, for the message of a failure.
  for (int k = 0; k < kKills; ++k) {
    SCOPED_TRACE(absl::StrCat("kill ", k, ", seed ", seed_));
    // The job has recovered: it trains, and has made a checkpoint since.
    const v1::Job job = cluster_.WaitUntil(id_, [&](const v1::Job& j) {
      return j.state() == v1::RUNNING && j.generation() == restarts + 1 &&
             j.checkpoints().newest_step() > newest.step();
    });
    if (HasFailure()) return;
    if (!job.restored_from().empty()) restored.insert(job.restored_from());
    EXPECT_GE(StepOf(job.restored_from()), known_before) << job.restored_from();
    newest = NewestSound();
    absl::SleepFor(absl::Milliseconds(random_() % 300));
    absl::StrAppend(&history, "\ngeneration ", job.generation(), " from step ",
                    StepOf(job.restored_from()), ", told ", job.checkpoints().newest_step(),
                    ", newest ", newest.step());
    in_progress += cluster_.Get(id_).checkpoints().in_progress_size() > 0;
    const int64_t known = Newest().step();
    absl::StrAppend(&history, ", known ", known);
    if (Kill()) {
      absl::StrAppend(&history, ", killed a trainer");
      ++restarts;
      known_before = known;
    }
    // Check at once, whatever was going on.
    const v1::Checkpoint now = NewestSound();
    EXPECT_GE(now.step(), newest.step());
    newest = now;
  }
  EXPECT_GE(in_progress, kKills / 4) << "too few kills met a save";
  EXPECT_GE(static_cast<int>(restored.size()), restarts / 2)
      << "it restored what it had saved: " << absl::StrJoin(restored, " ") << history;
  RecordProperty("restarts", restarts);
  RecordProperty("in_progress", in_progress);
}

INSTANTIATE_TEST_SUITE_P(Parts, KillPointsTest, testing::Range(0, kParts));

}  // namespace
}  // namespace paceline
