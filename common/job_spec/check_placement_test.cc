#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::JobSpec Spec(const std::string& changes) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' model { mlp {} } data { train: '/train' } steps: 100 "
      "optimizer { sgd {} learning_rate: 0.1 } " +
          changes,
      &spec))
      << changes;
  return spec;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const std::string& changes) {
  std::vector<std::string> problems;
  for (const SpecProblem& problem : CheckJobSpec(Spec(changes))) {
    problems.push_back(problem.field + " " + problem.message);
  }
  return problems;
}

TEST(CheckPlacementTest, DefaultQueueIsWrittenOut) {
  v1::JobSpec spec = Spec("");
  FillDefaults(&spec);
  EXPECT_EQ(spec.queue(), "default");
  EXPECT_EQ(spec.priority(), 0);
}

TEST(CheckPlacementTest, SoundPolicyHasNoProblem) {
  EXPECT_THAT(Problems("queue: 'research' priority: -1000 placement { "
                       "labels { key: 'kind' value: 'new' } nodes: 'a' exclude_nodes: 'b' "
                       "tolerate: 'team' tolerate: 'old=yes' same: 'rack' }"),
              IsEmpty());
}

TEST(CheckPlacementTest, RanksPerNodeDivideTheRanksWhichAreNeverReplaced) {
  EXPECT_THAT(Problems("ranks: 8 placement { ranks_per_node: 4 }"), IsEmpty());
  EXPECT_THAT(Problems("ranks: 8 placement { ranks_per_node: 8 } max_restarts: 1"), IsEmpty());
  EXPECT_THAT(Problems("ranks: 8 placement { ranks_per_node: 3 }"),
              ElementsAre("placement.ranks_per_node is 3, which does not divide ranks, 8"));
  EXPECT_THAT(Problems("ranks: 8 placement { ranks_per_node: -1 }"),
              ElementsAre(HasSubstr("placement.ranks_per_node is -1; allowed is 1 to 4096")));
  EXPECT_THAT(Problems("ranks: 8 placement { ranks_per_node: 4 } recovery { max_failures: 1 }"),
              ElementsAre(HasSubstr("placement.ranks_per_node does not go with recovery")));
}

TEST(CheckPlacementTest, NodesHoldWholeReplicasOrReplicasWholeNodes) {
  const std::string shards = "ranks: 12 shards: 4 placement ";
  for (const char* fits : {"{ ranks_per_node: 2 }", "{ ranks_per_node: 4 }",
                           "{ ranks_per_node: 12 }", "{ replica: REPLICA_PLACEMENT_REQUIRE }"}) {
    EXPECT_THAT(Problems(shards + fits), Not(Contains(HasSubstr("placement")))) << fits;
  }
  EXPECT_THAT(Problems(shards + "{ ranks_per_node: 6 }"),
              Contains(HasSubstr("placement.ranks_per_node is 6, and shards 4: one has to be")));
}

TEST(CheckPlacementTest, ReplicasAreKeptTogetherWherePossibleUnlessTheFileSaysOtherwise) {
  v1::JobSpec spec = Spec("");
  FillDefaults(&spec);
  EXPECT_EQ(spec.placement().replica(), v1::REPLICA_PLACEMENT_PREFER);
  spec = Spec("placement { replica: REPLICA_PLACEMENT_REQUIRE }");
  FillDefaults(&spec);
  EXPECT_EQ(spec.placement().replica(), v1::REPLICA_PLACEMENT_REQUIRE);
}

TEST(CheckPlacementTest, EveryProblemIsTold) {
  EXPECT_THAT(
      Problems("queue: 'My queue' priority: 1001 placement { nodes: 'a' nodes: '' "
               "exclude_nodes: 'a' tolerate: '=x' tolerate: 'taint.team' }"),
      ElementsAre(HasSubstr("priority is 1001; allowed is -1000 to 1000"),
                  HasSubstr("queue is no name"),
                  HasSubstr("placement.nodes[0] is a, which is in exclude_nodes too"),
                  "placement.nodes[1] is empty", HasSubstr("placement.tolerate[0] has no key"),
                  HasSubstr("placement.tolerate[1] is taint.team; leave out taint.")));
}

}  // namespace
}  // namespace paceline
