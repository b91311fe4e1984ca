#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const v1::JobSpec& spec) {
  std::vector<std::string> texts;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    texts.push_back(problem.field + " " + problem.message);
  }
  return texts;
}

// Of a session of 8 ranks.
std::vector<std::string> SessionProblems(const std::string& changes) {
  return Problems(
      Parse("name: 'own' command: ['python3', 'train.py'] working_directory: '/home/ann' "
            "session: true steps: 100 ranks: 8 " +
            changes));
}

TEST(CheckShardsTest, ReplicasAreWhole) {
  for (const char* shards : {"1", "2", "4", "8"}) {
    EXPECT_THAT(SessionProblems(std::string("shards: ") + shards), IsEmpty()) << shards;
  }
  EXPECT_THAT(SessionProblems("shards: 3"),
              ElementsAre("shards is 3; allowed are the divisors of ranks (8): each replica has as "
                          "many ranks"));
  EXPECT_THAT(SessionProblems("shards: 16"), ElementsAre(StartsWith("shards is 16; allowed are")));
  EXPECT_THAT(SessionProblems("shards: -1"), ElementsAre(StartsWith("shards is -1")));
}

TEST(CheckShardsTest, OtherBuiltInModelsAreRefusedByName) {
  const std::string built_in =
      "name: 'a' ranks: 8 model { mlp {} } data { train: '/t' } steps: 100 optimizer { sgd {} "
      "learning_rate: 1 } ";
  EXPECT_THAT(Problems(Parse(built_in + "shards: 1")), IsEmpty());
  EXPECT_THAT(Problems(Parse(built_in + "shards: 2")),
              ElementsAre("shards is 2, but model mlp cannot be sharded, only llama, or the model "
                          "of a session; give one of these, or shards: 1"));
}

// Of 8 ranks.
std::vector<std::string> LlamaProblems(const std::string& changes, bool recomputes = false) {
  v1::JobSpec spec = Parse(
      "name: 'a' ranks: 8 model { llama {} } data { train: '/t' } steps: 100 optimizer { "
      "adamw {} learning_rate: 1 } " +
      changes);
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(recomputes);
  return Problems(spec);
}

TEST(CheckShardsTest, ALlamaIsSharded) {
  EXPECT_THAT(LlamaProblems("shards: 4"), IsEmpty());
  EXPECT_THAT(LlamaProblems("shards: 4 zero_stage: 2"), IsEmpty());
  EXPECT_THAT(LlamaProblems("shards: 4 strategy { local_sgd { period: 4 } }"), IsEmpty());
  EXPECT_THAT(LlamaProblems("shards: 4 gradient_format: WIRE_FORMAT_BF16"),
              ElementsAre(StartsWith("gradient_format is given beside shards 4")));
}

TEST(CheckShardsTest, GradientsOfAShardedSessionHaveTheFormatOfItsPolicy) {
  for (const char* format : {"FP16", "BF16", "INT8", "FP8"}) {
    const std::string given = std::string("gradient_format: WIRE_FORMAT_") + format;
    EXPECT_THAT(SessionProblems("shards: 2 " + given),
                ElementsAre("gradient_format is given beside shards 2, with which gradients have "
                            "the reduce_dtype of fully_shard's MixedPrecisionPolicy; give that "
                            "one, and leave this out"));
    EXPECT_THAT(SessionProblems("shards: 1 " + given), IsEmpty());
  }
  EXPECT_THAT(SessionProblems("shards: 2 gradient_format: WIRE_FORMAT_FP32"), IsEmpty());
}

TEST(CheckShardsTest, Int4IsNoneOfGradientsInAnyCase) {
  for (const char* shards : {"1", "2"}) {
    EXPECT_THAT(
        SessionProblems(std::string("gradient_format: WIRE_FORMAT_INT4 shards: ") + shards),
        ElementsAre("gradient_format is int4, which has 15 values and is for averages that end in "
                    "an outer step; give int8, or leave it out"));
  }
}

TEST(CheckShardsTest, TheStageIsOfShardsAndKnowsWhatItNeeds) {
  EXPECT_THAT(LlamaProblems("zero_stage: 3"),
              ElementsAre(StartsWith("zero_stage is 3 without shards")));
  EXPECT_THAT(LlamaProblems("shards: 2 zero_stage: 1"), ElementsAre(StartsWith("zero_stage is 1")));
  EXPECT_THAT(LlamaProblems("shards: 2 zero_stage: 3"),
              ElementsAre(StartsWith("zero_stage is 3 without model.checkpoint_activations")));
  EXPECT_THAT(LlamaProblems("shards: 2 zero_stage: 3", /*recomputes=*/true), IsEmpty());
}

TEST(CheckShardsTest, TheStageOfAShardedLlamaIsFilledIn) {
  v1::JobSpec spec = Parse("model { llama {} } ranks: 4");
  FillDefaults(&spec);
  EXPECT_EQ(spec.zero_stage(), 0);
  spec.set_shards(2);
  FillDefaults(&spec);
  EXPECT_EQ(spec.zero_stage(), 2);
}

TEST(CheckShardsTest, StrategiesOfWholeModelsAreRefusedByName) {
  EXPECT_THAT(SessionProblems("shards: 2 strategy { slipstream {} }"),
              ElementsAre("shards is 2 beside strategy slipstream, which only has whole models so "
                          "far; give strategy ddp, local_sgd or hsgd, or shards: 1"));
  EXPECT_THAT(SessionProblems("shards: 2 strategy { auto {} }"),
              ElementsAre(StartsWith("shards is 2 beside strategy auto, ")));
  EXPECT_THAT(SessionProblems("shards: 2 strategy { local_sgd { period: 4 } }"), IsEmpty());
}

TEST(CheckShardsTest, NoRemedyIsTakenWithoutAPerson) {
  EXPECT_THAT(SessionProblems("shards: 1 stragglers { mode: STRAGGLER_MODE_AUTO }"), IsEmpty());
  EXPECT_THAT(SessionProblems("shards: 2 stragglers { mode: STRAGGLER_MODE_ADVISE }"), IsEmpty());
  EXPECT_THAT(SessionProblems("shards: 2 stragglers { mode: STRAGGLER_MODE_AUTO }"),
              ElementsAre(StartsWith("stragglers.mode is auto beside shards 2: ")));
}

TEST(CheckShardsTest, ParametersTravelAsWithoutShards) {
  EXPECT_THAT(SessionProblems("shards: 2 strategy { hsgd { ladder { period: 2 size: 2 } ladder { "
                              "period: 4 level: SCOPE_ALL format: WIRE_FORMAT_INT8 } } }"),
              IsEmpty());
  EXPECT_THAT(SessionProblems("shards: 2 strategy { local_sgd { period: 2 format: "
                              "WIRE_FORMAT_FP8 } }"),
              IsEmpty());
}

TEST(CheckShardsTest, LaddersAndGroupsOfGradientsCountReplicas) {
  EXPECT_THAT(SessionProblems("shards: 2 strategy { hsgd { ladder { period: 2 size: 2 } "
                              "ladder { period: 4 size: 4 } } gradient_group_size: 2 }"),
              IsEmpty());
  EXPECT_THAT(SessionProblems("shards: 2 strategy { hsgd { ladder { period: 2 size: 8 } } "
                              "gradient_group_size: 8 }"),
              ElementsAre("strategy.hsgd.ladder[0].size is 8; the last level takes the number of "
                          "replicas (4), or level all instead of a size",
                          "strategy.gradient_group_size is 8; allowed is 0 for the replicas of "
                          "each node, or a divisor of the number of replicas (4)"));
  EXPECT_THAT(SessionProblems("shards: 3 strategy { hsgd { ladder { period: 2 size: 8 } } }"),
              ElementsAre(StartsWith("shards is 3")))
      << "the number of replicas is not known";
}

TEST(CheckShardsTest, JobShrinksByWholeReplicas) {
  const std::string shrinks = "shards: 2 recovery { max_failures: 1 ";
  EXPECT_THAT(SessionProblems(shrinks + "}"), IsEmpty());
  EXPECT_THAT(SessionProblems(shrinks + "min_ranks: 4 }"), IsEmpty());
  EXPECT_THAT(SessionProblems(shrinks + "min_ranks: 3 }"),
              ElementsAre("recovery.min_ranks is 3; allowed are multiples of shards (2): a job "
                          "goes on with whole replicas"));
  EXPECT_THAT(SessionProblems("shards: 3 recovery { max_failures: 1 min_ranks: 4 }"),
              ElementsAre(StartsWith("shards is 3")));
}

// 8 ranks share 24 samples; 7 could not, but 6 can.
TEST(CheckShardsTest, FewerReplicasShareTheBatch) {
  EXPECT_THAT(SessionProblems("shards: 2 batch_per_rank: 3 recovery { max_failures: 1 min_ranks: 6 "
                              "}"),
              IsEmpty());
  EXPECT_THAT(SessionProblems("shards: 2 batch_per_rank: 1 recovery { max_failures: 1 min_ranks: 6 "
                              "}"),
              ElementsAre(StartsWith("recovery.min_ranks is 6, but 8 samples per step cannot be "
                                     "shared equally by any number of ranks from there to 6; the "
                                     "next is 4")));
}

TEST(CheckLadderTest, GroupsAreOfReplicas) {
  const v1::Strategy hsgd = Parse("strategy { hsgd { ladder { period: 2 size: 4 } } }").strategy();
  EXPECT_THAT(CheckLadder(hsgd.hsgd().ladder(), 8, 2, "ladder"), IsEmpty());
  EXPECT_EQ(CheckLadder(hsgd.hsgd().ladder(), 8, 1, "ladder").at(0).field, "ladder[0].size");
}

}  // namespace
}  // namespace paceline
