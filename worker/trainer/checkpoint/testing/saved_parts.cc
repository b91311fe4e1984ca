#include "worker/trainer/checkpoint/testing/saved_parts.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/checkpoint/manifest.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/comm/cpu_platform.h"

namespace paceline {

std::string NewCheckpointDirectory() {
  std::string job = testing::TempDir() + "/job.XXXXXX";
  EXPECT_NE(::mkdtemp(job.data()), nullptr);
  return job + "/step-000000000007.g1";
}

absl::Status SaveParts(const std::string& directory,
                       const std::vector<std::vector<ShardEntry>>& ranks, int shards) {
  Manifest part;
  part.job_id = "j-1";
  part.generation = 1;
  part.step = 7;
  part.ranks = static_cast<int>(ranks.size());
  part.shards = shards;
  part.job_spec = "{}";
  CpuPlatform platform;
  absl::Status first;
  // A deep copy: sanitizers do not see Abseil's reference counts.
  const auto keep = [&first](const absl::Status& status) {
    first.Update(absl::Status(status.code(), status.message()));
  };
  for (int rank = 0; rank < part.ranks; ++rank) {
    ShardSaver saver(platform, {});
    saver.SetPlace(rank, part.ranks);
    saver.Begin(directory, part, ranks[static_cast<size_t>(rank)], {},
                [&keep](const ShardResult& result) { keep(result.status); });
    saver.BeforeChange();
    saver.Drain();
    if (rank + 1 < part.ranks || !first.ok()) continue;
    saver.Commit(directory, [&keep](const absl::Status& status, double) { keep(status); });
    saver.Drain();
  }
  return first;
}

}  // namespace paceline
