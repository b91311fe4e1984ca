#include "controller/core/checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Checkpoint At(int64_t step, CheckpointState state = CheckpointState::kComplete,
              int64_t generation = 1) {
  Checkpoint checkpoint;
  checkpoint.key = {step, generation};
  checkpoint.state = state;
  return checkpoint;
}

std::vector<int64_t> Surplus(const std::vector<Checkpoint>& records, int keep_latest,
                             int64_t keep_every = 0, const std::set<CheckpointKey>& in_use = {}) {
  CheckpointPolicy policy;
  policy.keep_latest = keep_latest;
  policy.keep_every = keep_every;
  std::vector<int64_t> steps;
  const auto asks = [&](const CheckpointKey& key) { return in_use.count(key) > 0; };
  for (const CheckpointKey& key : FindSurplus(records, policy, asks)) steps.push_back(key.step);
  return steps;
}

TEST(RetentionTest, NewestAreKept) {
  EXPECT_THAT(Surplus({At(10), At(20), At(30), At(40)}, 2), ElementsAre(20, 10));
  EXPECT_THAT(Surplus({At(10), At(20)}, 2), IsEmpty());
  EXPECT_THAT(Surplus({}, 1), IsEmpty());
}

TEST(RetentionTest, ZeroKeepsAll) { EXPECT_THAT(Surplus({At(10), At(20), At(30)}, 0), IsEmpty()); }

TEST(RetentionTest, NewestIsTheLastMadeNotTheOneOfTheGreatestStep) {
  const auto complete = CheckpointState::kComplete;
  EXPECT_THAT(Surplus({At(10), At(90), At(20, complete, 2)}, 1), ElementsAre(90, 10));
}

TEST(RetentionTest, DamagedAndLeavingOnesNeitherCountNorGo) {
  EXPECT_THAT(Surplus({At(10), At(20, CheckpointState::kDamaged), At(30),
                       At(40, CheckpointState::kDamaged), At(50, CheckpointState::kDeleting)},
                      1),
              ElementsAre(10));
}

TEST(RetentionTest, OnesThatAPersonPutElsewhereNeitherCountNorGo) {
  std::vector<Checkpoint> records = {At(10), At(20), At(30), At(40)};
  records[1].base = records[3].base = "/spare";
  EXPECT_THAT(Surplus(records, 1), ElementsAre(10));
}

TEST(RetentionTest, PinnedAndThoseInUseAreKeptBesideTheNewest) {
  std::vector<Checkpoint> records = {At(10), At(20), At(30), At(40), At(50)};
  records[0].pinned = true;
  EXPECT_THAT(Surplus(records, 1, 0, {{30, 1}}), ElementsAre(40, 20));
}

TEST(RetentionTest, KeepEveryIsKeptForEver) {
  EXPECT_THAT(Surplus({At(100), At(150), At(200), At(250), At(300)}, 1, 100),
              ElementsAre(250, 150));
}

}  // namespace
}  // namespace paceline
