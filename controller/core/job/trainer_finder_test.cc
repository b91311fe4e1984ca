#include "controller/core/job/trainer_finder.h"

#include <gtest/gtest.h>

#include <random>

#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

const JobId kJob("job-1");

RankState Trainer(int64_t generation, int rank) {
  RankState trainer;
  trainer.report.id = {kJob, Generation(generation), Rank(rank)};
  return trainer;
}

// Every third rank is held by a former spare; the other trainers are still spares, or leave.
Job JobOf(int ranks) {
  Job job;
  job.request.id = kJob;
  for (int rank = 0; rank < ranks; ++rank) {
    job.ranks.push_back(rank % 3 == 0 ? Trainer(2, ranks + rank) : Trainer(1, rank));
    if (rank % 3 == 0) job.leaving.push_back(Trainer(1, rank));
  }
  for (int spare = 0; spare < 5; ++spare) job.spares.push_back(Trainer(3, ranks + spare));
  return job;
}

// A slow but obviously correct search.
const RankState* Obvious(const Job& job, const TrainerId& id) {
  for (const RankState* trainer : TrainersOf(job)) {
    if (trainer->report.id == id) return trainer;
  }
  return nullptr;
}

TEST(TrainerFinderTest, FindsWhatThereIsHoweverOftenItIsAsked) {
  const Job job = JobOf(50);
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same each time.
  TrainerFinder finder;
  int found = 0;
  for (int i = 0; i < 5000; ++i) {
    const TrainerId id = {kJob, Generation(static_cast<int64_t>(random() % 5)),
                          Rank(static_cast<int>(random() % 120) - 5)};
    const RankState* const trainer = finder.Find(job, id);
    ASSERT_EQ(trainer, Obvious(job, id)) << id.generation.value() << "." << id.rank.value();
    if (trainer != nullptr) ++found;
  }
  EXPECT_GT(found, 400);
}

TEST(TrainerFinderTest, JobsAreToldApart) {
  const Job one = JobOf(9);
  const Job other = JobOf(6);
  TrainerFinder finder;
  // In `one` the spare that has become rank 3, in `other` nobody.
  const TrainerId id = {kJob, Generation(2), Rank(12)};
  for (int i = 0; i < 2 * TrainerFinder::kScans; ++i) {
    EXPECT_EQ(finder.Find(one, id), &one.ranks[3]);
    EXPECT_EQ(finder.Find(other, id), nullptr);
  }
}

// If each name cost a look at all trainers of the job, this test would not end in time.
TEST(TrainerFinderTest, MillionsThatAreNotThereAreLookedUpInATable) {
  const Job job = JobOf(4096);
  TrainerFinder finder;
  for (int n = 0; n < 2'000'000; ++n) {
    ASSERT_EQ(finder.Find(job, {kJob, Generation(9), Rank(n)}), nullptr);
  }
}

}  // namespace
}  // namespace paceline
