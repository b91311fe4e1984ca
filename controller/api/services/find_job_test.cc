#include "controller/api/services/find_job.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

// A job with two checkpoints of step 40.
class FindCheckpointTest : public ::testing::Test {
 protected:
  // Returns the generation that JOB/STEP means, when those of generation 1 and 2 have these states.
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
    EXPECT_TRUE(FindCheckpointByName({Role::kAdmin, ""}, cluster, name, &found).ok());
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

TEST(MaySeeTest, ASubmitterKnowsOfItsOwnJobs) {
  const Principal ann = {Role::kSubmitter, "ann"};
  EXPECT_TRUE(MaySee(ann, "ann"));
  EXPECT_FALSE(MaySee(ann, "bob"));
  EXPECT_FALSE(MaySee(ann, "")) << "of a version without submitters";
  EXPECT_FALSE(MaySee({Role::kSubmitter, ""}, "")) << "nobody's";
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
    EXPECT_TRUE(MaySee({role, "ann"}, "bob")) << RoleName(role);
    EXPECT_TRUE(MaySee({role, "ann"}, "")) << RoleName(role);
  }
  for (const Role role : {Role::kNone, Role::kWorker, Role::kController}) {
    EXPECT_FALSE(MaySee({role, "ann"}, "ann")) << RoleName(role);
  }
}

Job JobOf(const char* id, int64_t number, const char* submitter, const char* name = "digits") {
  JobRequest request = PlayedRequest();
  request.id = JobId(id);
  request.name = name;
  Job made = NewJob(std::move(request), number, At(0));
  made.submitter = submitter;
  return made;
}

// Returns the id of the job that is found; empty: none.
std::string Found(const Cluster& cluster, const Principal& caller, const std::string& reference) {
  const Job* meant = nullptr;
  if (!FindJob(caller, cluster, reference, &meant).ok()) return "";
  return meant->request.id.value();
}

// Names and prefixes of ids are only matched against jobs that the caller may see.
TEST(FindJobTest, OthersJobsAreNotInTheWay) {
  Cluster cluster{Cluster::Options()};
  cluster.Restore({JobOf("job-11", 1, "ann"), JobOf("job-12", 2, "bob")}, {}, At(1));
  const Principal ann = {Role::kSubmitter, "ann"};
  EXPECT_EQ(Found(cluster, ann, "job-12"), "");
  EXPECT_EQ(Found(cluster, ann, "job-1"), "job-11") << "would be ambiguous";
  EXPECT_EQ(Found(cluster, ann, "digits"), "job-11") << "bob's is newer";
  EXPECT_EQ(Found(cluster, {Role::kViewer, "vic"}, "job-1"), "");
  EXPECT_EQ(Found(cluster, {Role::kViewer, "vic"}, "digits"), "job-12");
}

TEST(FindJobTest, BeginningsOfSeveralIdsNameThem) {
  Cluster cluster{Cluster::Options()};
  cluster.Restore({JobOf("job-11", 1, "ann"), JobOf("job-12", 2, "ann"), JobOf("job-13", 3, "ann"),
                   JobOf("job-2", 4, "ann")},
                  {}, At(1));
  const auto reported = [&](const std::string& reference) {
    const Job* meant = nullptr;
    return FindJob({Role::kViewer, "vic"}, cluster, reference, &meant).error_message();
  };
  EXPECT_EQ(reported("job-1"), "\"job-1\" fits several jobs: job-11, job-12, ...");
  EXPECT_EQ(reported("job-2"), "");
  EXPECT_EQ(reported("job-3"), "no job has the id or name \"job-3\"");
}

TEST(FindJobTest, AWholeIdIsMeantBeforeLongerOnesAndNames) {
  Cluster cluster{Cluster::Options()};
  cluster.Restore({JobOf("job-1", 1, "bob"), JobOf("job-11", 2, "ann"),
                   JobOf("job-2", 3, "ann", "job-1"), JobOf("job-3", 4, "ann", "job-4")},
                  {}, At(1));
  const Principal all = {Role::kViewer, "vic"};
  const Principal ann = {Role::kSubmitter, "ann"};
  EXPECT_EQ(Found(cluster, all, "job-1"), "job-1");
  EXPECT_EQ(Found(cluster, all, "job-11"), "job-11");
  EXPECT_EQ(Found(cluster, ann, "job-1"), "job-2") << "bob's is none: the name counts";
  EXPECT_EQ(Found(cluster, ann, "job-4"), "job-3");
  EXPECT_EQ(Found(cluster, all, "job-5"), "");
  EXPECT_EQ(Found(cluster, all, ""), "");
}

}  // namespace
}  // namespace paceline
