#include "controller/rpc/find_job.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "controller/core/job_checkpoints.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

// Of one job, with two checkpoints of step 40.
class FindCheckpointTest : public ::testing::Test {
 protected:
  // States of those of generation 1 and 2; the generation that JOB/STEP means.
  static int64_t Found(CheckpointState first, CheckpointState second,
                       const std::string& name = "job-1/40") {
    Job job = NewJob(PlayedRequest(), 1, At(0));
    for (const auto& [generation, state] : {std::make_pair(1, first), std::make_pair(2, second)}) {
      Checkpoint checkpoint;
      checkpoint.key = {40, generation};
      checkpoint.state = state;
      AddCheckpoint(job, std::move(checkpoint));
    }
    Cluster cluster{Cluster::Options()};
    cluster.Restore({std::move(job)}, {}, At(1));
    NamedCheckpoint found;
    EXPECT_TRUE(FindCheckpointByName(cluster, name, &found).ok());
    return found.checkpoint == nullptr ? 0 : found.checkpoint->key.generation;
  }
};

TEST_F(FindCheckpointTest, NewestCompleteOneOfAStepIsMeant) {
  constexpr auto kComplete = CheckpointState::kComplete;
  constexpr auto kDamaged = CheckpointState::kDamaged;
  constexpr auto kDeleting = CheckpointState::kDeleting;
  EXPECT_EQ(Found(kComplete, kComplete), 2);
  EXPECT_EQ(Found(kDamaged, kComplete), 2);
  EXPECT_EQ(Found(kComplete, kDamaged), 1);
  EXPECT_EQ(Found(kComplete, kDeleting), 1);
  EXPECT_EQ(Found(kDamaged, kDamaged), 2) << "there is none that is complete";
  EXPECT_EQ(Found(kComplete, kDamaged, "job-1/40.g2"), 2) << "it is named";
}

}  // namespace
}  // namespace paceline
