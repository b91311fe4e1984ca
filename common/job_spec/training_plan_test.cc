#include "common/job_spec/training_plan.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Nodes of three, one and four ranks in two racks.
const std::vector<RankHome> kUneven = {{"a", "r1"}, {"a", "r1"}, {"a", "r1"}, {"b", "r1"},
                                       {"c", "r2"}, {"c", "r2"}, {"c", "r2"}, {"c", "r2"}};

void ExpectPlan(const std::string& strategy, const std::vector<RankHome>& homes,
                const std::string& plan) {
  const v1::TrainingPlan made = MakeTrainingPlan(7, Parse<v1::Strategy>(strategy), homes);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      made, Parse<v1::TrainingPlan>("version: 7 " + plan)))
      << made.ShortDebugString();
}

TEST(MakeTrainingPlanTest, DdpHasNoLevelsAndNoGradientGroups) {
  ExpectPlan("ddp {}", kUneven, "");
  ExpectPlan("", kUneven, "");
}

TEST(MakeTrainingPlanTest, LocalSgdIsOneLevelOfAllRanks) {
  ExpectPlan("local_sgd { period: 4 } gradient_group_size: 1", kUneven,
             "levels { period: 4 groups: 8 format: WIRE_FORMAT_FP32 }");
  ExpectPlan("local_sgd { period: 4 format: WIRE_FORMAT_FP8 } gradient_group_size: 1", kUneven,
             "levels { guarded_period: 4 groups: 8 format: WIRE_FORMAT_FP8 }");
}

TEST(MakeTrainingPlanTest, LevelsHaveTheirGroupsAndFormats) {
  ExpectPlan(R"(hsgd {
                  ladder { period: 2 size: 2 }
                  ladder { period: 4 level: SCOPE_NODE format: WIRE_FORMAT_INT8 }
                  ladder { period: 8 level: SCOPE_RACK }
                  ladder { period: 16 level: SCOPE_ALL format: WIRE_FORMAT_INT8 }
                } gradient_group_size: 1)",
             kUneven, R"(levels { period: 2 groups: [2, 2, 2, 2] format: WIRE_FORMAT_FP32 }
                         levels { period: 4 groups: [3, 1, 4] format: WIRE_FORMAT_INT8 }
                         levels { period: 8 groups: [4, 4] format: WIRE_FORMAT_FP32 }
                         levels { period: 16 groups: 8 format: WIRE_FORMAT_INT8 })");
}

// An elastic job of 4 ranks has 6: those beyond its ladder must not train a model of their own.
TEST(MakeTrainingPlanTest, LastLevelIsOfAllRanksHoweverManyThereAre) {
  const std::vector<RankHome> grown = {{"a", ""}, {"a", ""}, {"b", ""},
                                       {"b", ""}, {"c", ""}, {"d", ""}};
  ExpectPlan(
      "hsgd { ladder { period: 2 size: 2 } ladder { period: 8 size: 4 } } "
      "gradient_group_size: 1",
      grown,
      "levels { period: 2 groups: [2, 2, 2] format: WIRE_FORMAT_FP32 } "
      "levels { period: 8 groups: 6 format: WIRE_FORMAT_FP32 }");
  ExpectPlan("hsgd { ladder { period: 4 size: 4 } } gradient_group_size: 1", grown,
             "levels { period: 4 groups: 6 format: WIRE_FORMAT_FP32 }");
}

// Trainers that do not know outer steps find levels without a period, and refuse the plan.
TEST(MakeTrainingPlanTest, OuterStepsStayWithTheirLevels) {
  const std::string outer = "outer { kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 }";
  ExpectPlan("local_sgd { period: 500 " + outer + " } gradient_group_size: 1", kUneven,
             "levels { guarded_period: 500 groups: 8 format: WIRE_FORMAT_FP32 " + outer + " }");
  ExpectPlan("hsgd { ladder { period: 2 size: 2 } ladder { period: 8 size: 8 " + outer +
                 " } } gradient_group_size: 1",
             kUneven,
             "levels { period: 2 groups: [2, 2, 2, 2] format: WIRE_FORMAT_FP32 } "
             "levels { guarded_period: 8 groups: 8 format: WIRE_FORMAT_FP32 " +
                 outer + " }");
}

TEST(MakeTrainingPlanTest, GradientsAreAveragedOverTheRanksOfANode) {
  ExpectPlan("hsgd { ladder { period: 4 size: 8 } }", kUneven,
             "levels { period: 4 groups: 8 format: WIRE_FORMAT_FP32 } gradient_groups: [3, 1, 4]");
}

TEST(MakeTrainingPlanTest, GradientsAreAveragedOverGroupsOfAGivenSize) {
  ExpectPlan("hsgd { ladder { period: 4 size: 8 } } gradient_group_size: 4", kUneven,
             "levels { period: 4 groups: 8 format: WIRE_FORMAT_FP32 } gradient_groups: [4, 4]");
}

TEST(MakeTrainingPlanTest, ShrunkJobKeepsTheGroupsOfItsSeats) {
  const v1::TrainingPlan made =
      MakeTrainingPlan(7, Parse<v1::Strategy>(R"(hsgd {
                                                   ladder { period: 2 size: 2 }
                                                   ladder { period: 4 level: SCOPE_NODE }
                                                   ladder { period: 8 level: SCOPE_ALL }
                                                 })"),
                       kUneven, {true, false, true, false, false, false, true, true});
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(made, Parse<v1::TrainingPlan>(R"(
          version: 7
          levels { period: 2 groups: [1, 1, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 4 groups: [2, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 8 groups: 4 format: WIRE_FORMAT_FP32 }
          gradient_groups: [2, 2])")))
      << made.ShortDebugString();
}

TEST(MakeTrainingPlanTest, GroupsAreOfReplicas) {
  const v1::Strategy strategy = Parse<v1::Strategy>(R"(hsgd {
                                                         ladder { period: 2 size: 2 }
                                                         ladder { period: 4 level: SCOPE_RACK }
                                                         ladder { period: 8 level: SCOPE_ALL }
                                                       })");
  // Replicas of two ranks: the first two on nodes of their own, the others on the same one.
  const std::vector<RankHome> homes = {{"a", "r1"}, {"a", "r1"}, {"b", "r1"}, {"b", "r1"},
                                       {"c", "r2"}, {"c", "r2"}, {"c", "r2"}, {"c", "r2"}};
  const v1::TrainingPlan whole = MakeTrainingPlan(7, strategy, homes, {}, 2);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(whole, Parse<v1::TrainingPlan>(R"(
          version: 7
          levels { period: 2 groups: [2, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 4 groups: [2, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 8 groups: 4 format: WIRE_FORMAT_FP32 }
          gradient_groups: [1, 1, 2])")))
      << whole.ShortDebugString();
  const v1::TrainingPlan shrunk =
      MakeTrainingPlan(7, strategy, homes, {true, true, false, false, true, true, true, true}, 2);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(shrunk, Parse<v1::TrainingPlan>(R"(
          version: 7
          levels { period: 2 groups: [1, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 4 groups: [1, 2] format: WIRE_FORMAT_FP32 }
          levels { period: 8 groups: 3 format: WIRE_FORMAT_FP32 }
          gradient_groups: [1, 2])")))
      << shrunk.ShortDebugString();
}

TEST(MakeTrainingPlanTest, ReplicasWithoutAPeerOnTheirNodeAverageNoGradients) {
  const std::vector<RankHome> homes = {{"a", ""}, {"a", ""}, {"b", ""}, {"b", ""}};
  const v1::TrainingPlan made =
      MakeTrainingPlan(7, Parse<v1::Strategy>("local_sgd { period: 1 }"), homes, {}, 2);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      made, Parse<v1::TrainingPlan>(
                "version: 7 levels { period: 1 groups: 2 format: WIRE_FORMAT_FP32 }")))
      << made.ShortDebugString();
}

TEST(MakeTrainingPlanTest, SlipstreamHasAModeAndAWindow) {
  ExpectPlan(R"(slipstream {
                  mode: SLIPSTREAM_FREE window { min_steps: 1 max_steps: 64 max_cap: 256 }
                } optimizer_state: OPTIMIZER_STATE_LOCAL)",
             kUneven, R"(slipstream {
                           mode: SLIPSTREAM_FREE
                           window { min_steps: 1 max_steps: 64 max_cap: 256 }
                         })");
  ExpectPlan(R"(slipstream { mode: SLIPSTREAM_PAUSE window { max_steps: 8 } }
                optimizer_state: OPTIMIZER_STATE_AVERAGE)",
             kUneven, R"(slipstream {
                           mode: SLIPSTREAM_PAUSE window { max_steps: 8 } averages_state: true
                         })");
}

TEST(MakeTrainingPlanTest, AutoBeginsWithTheMeanOfAllGradients) {
  ExpectPlan("auto {} warmup_steps: 50", kUneven, "");
}

TEST(MakeTrainingPlanTest, RanksWithSlipstreamShareGradientsOnlyIfASizeIsGiven) {
  const std::string plan = "slipstream { mode: SLIPSTREAM_FREE window { max_steps: 8 } }";
  ExpectPlan(plan, kUneven, plan);
  ExpectPlan(plan + "gradient_group_size: 1", kUneven, plan);
  ExpectPlan(plan + "gradient_group_size: 4", kUneven, plan + "gradient_groups: [4, 4]");
}

TEST(MakeTrainingPlanTest, RanksWithoutAPeerOnTheirNodeAverageNoGradients) {
  ExpectPlan("local_sgd { period: 1 }", {{"a", ""}, {"b", ""}},
             "levels { period: 1 groups: 2 format: WIRE_FORMAT_FP32 }");
  ExpectPlan("local_sgd { period: 1 }", {{"a", ""}},
             "levels { period: 1 groups: 1 format: WIRE_FORMAT_FP32 }");
}

}  // namespace
}  // namespace paceline
