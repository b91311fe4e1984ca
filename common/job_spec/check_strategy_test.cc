#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::JobSpec SpecWith(const std::string& strategy) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'a' ranks: 8 model { resnet18 {} } data { train: '/t' } steps: 1 "
      "optimizer { sgd {} learning_rate: 1 } strategy { " +
          strategy + " }",
      &spec))
      << strategy;
  return spec;
}

// "FIELD MESSAGE" of each problem of a job of 8 ranks, without "strategy.".
std::vector<std::string> Problems(const std::string& strategy) {
  std::vector<std::string> out;
  for (const SpecProblem& problem : CheckJobSpec(SpecWith(strategy))) {
    EXPECT_EQ(problem.field.rfind("strategy.", 0), 0u) << problem.field;
    out.push_back(problem.field.substr(9) + " " + problem.message);
  }
  return out;
}

// A level of a ladder, and what is wrong with the ladder of such levels; empty: nothing.
struct LadderCase {
  std::string name;
  std::vector<std::string> levels;
  std::vector<std::string> problems;

  friend std::ostream& operator<<(std::ostream& out, const LadderCase& c) { return out << c.name; }
};

class LadderTest : public ::testing::TestWithParam<LadderCase> {};

TEST_P(LadderTest, IsJudged) {
  std::string text = "hsgd { ";
  for (const std::string& level : GetParam().levels) text += "ladder { " + level + " } ";
  std::vector<std::string> expected;
  for (const std::string& problem : GetParam().problems) expected.push_back("hsgd." + problem);
  EXPECT_THAT(Problems(text + "}"), ElementsAreArray(expected));
}

std::string Name(const ::testing::TestParamInfo<LadderCase>& info) { return info.param.name; }

const char kAll[] = "period: 8 size: 8";

INSTANTIATE_TEST_SUITE_P(
    Sound, LadderTest,
    ::testing::Values(
        LadderCase{"ThreeSizes", {"period: 2 size: 2", "period: 4 size: 4", kAll}, {}},
        LadderCase{"OneLevelOfPeriodOne", {"period: 1 size: 8"}, {}},
        LadderCase{"GroupsOfOneRank", {"period: 2 size: 1", kAll}, {}},
        LadderCase{"Scopes",
                   {"period: 2 level: SCOPE_NODE", "period: 4 level: SCOPE_RACK",
                    "period: 8 level: SCOPE_ALL"},
                   {}},
        LadderCase{
            "SizesBeforeScopes",
            {"period: 2 size: 2", "period: 4 level: SCOPE_NODE", "period: 8 level: SCOPE_ALL"},
            {}},
        LadderCase{"Formats",
                   {"period: 1 size: 1 format: WIRE_FORMAT_FP32",
                    "period: 2 size: 2 format: WIRE_FORMAT_FP16",
                    "period: 4 size: 4 format: WIRE_FORMAT_BF16",
                    "period: 8 size: 8 format: WIRE_FORMAT_FP8"},
                   {}},
        LadderCase{"Int8First", {"period: 8 size: 8 format: WIRE_FORMAT_INT8"}, {}}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Periods, LadderTest,
    ::testing::Values(
        LadderCase{"Missing",
                   {"size: 8"},
                   {"ladder[0].period is missing or 0; give the steps between two means, 1 or "
                    "more"}},
        LadderCase{
            "Negative", {"period: -2 size: 8"}, {"ladder[0].period is -2; allowed is 1 and more"}},
        LadderCase{"NegativeLater",
                   {"period: 2 size: 2", "period: -4 size: 8"},
                   {"ladder[1].period is -4; allowed is 1 and more"}},
        LadderCase{"NotAscending",
                   {"period: 8 size: 4", "period: 2 size: 8"},
                   {"ladder[1].period is 2; allowed are multiples of the period before it (8) "
                    "that are above it"}},
        LadderCase{"Equal",
                   {"period: 4 size: 4", "period: 4 size: 8"},
                   {"ladder[1].period is 4; allowed are multiples of the period before it (4) "
                    "that are above it"}},
        LadderCase{"NoMultiple",
                   {"period: 2 size: 4", "period: 3 size: 8"},
                   {"ladder[1].period is 3; allowed are multiples of the period before it (2) "
                    "that are above it"}}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Groups, LadderTest,
    ::testing::Values(
        LadderCase{"Missing",
                   {"period: 8"},
                   {"ladder[0].size is missing; give the ranks per group, or a level"}},
        LadderCase{"Both",
                   {"period: 8 size: 8 level: SCOPE_ALL"},
                   {"ladder[0].level is all beside size 8; give one of the two"}},
        LadderCase{"Negative",
                   {"period: 2 size: -1", kAll},
                   {"ladder[0].size is -1; allowed is 1 and more"}},
        LadderCase{"NoDivisor",
                   {"period: 2 size: 3", "period: 8 level: SCOPE_ALL"},
                   {"ladder[0].size is 3; allowed are the divisors of the number of ranks (8)"}},
        LadderCase{"MoreThanRanks",
                   {"period: 2 size: 16", "period: 8 level: SCOPE_ALL"},
                   {"ladder[0].size is 16; allowed are the divisors of the number of ranks (8)"}},
        LadderCase{"NotAscending",
                   {"period: 2 size: 4", "period: 4 size: 2", kAll},
                   {"ladder[1].size is 2; allowed are multiples of the size before it (4) that "
                    "are above it"}},
        LadderCase{"Equal",
                   {"period: 2 size: 4", "period: 4 size: 4", kAll},
                   {"ladder[1].size is 4; allowed are multiples of the size before it (4) that "
                    "are above it"}},
        LadderCase{"LastIsNotAll",
                   {"period: 2 size: 2", "period: 4 size: 4"},
                   {"ladder[1].size is 4; the last level takes the number of ranks (8), or level "
                    "all instead of a size"}},
        LadderCase{"LastIsMoreThanRanks",
                   {"period: 2 size: 16"},
                   {"ladder[0].size is 16; the last level takes the number of ranks (8), or level "
                    "all instead of a size"}},
        LadderCase{"AllIsNotLast",
                   {"period: 2 size: 8", "period: 4 level: SCOPE_ALL"},
                   {"ladder[0].size is 8, the number of ranks, before the last level; give less"}},
        LadderCase{"LastScopeIsNotAll",
                   {"period: 2 level: SCOPE_NODE"},
                   {"ladder[0].level is node; the last level takes all, or as size the number of "
                    "ranks (8)"}},
        LadderCase{"ScopesNotAscending",
                   {"period: 2 level: SCOPE_RACK", "period: 4 level: SCOPE_NODE",
                    "period: 8 level: SCOPE_ALL"},
                   {"ladder[1].level is node after rack; the order is node, rack, all"}},
        LadderCase{"ScopeTwice",
                   {"period: 2 level: SCOPE_ALL", "period: 4 level: SCOPE_ALL"},
                   {"ladder[1].level is all after all; the order is node, rack, all"}},
        LadderCase{"SizeAfterScope",
                   {"period: 2 level: SCOPE_NODE", kAll},
                   {"ladder[1].size is 8 after level node; those with a size come before those "
                    "with a level"}},
        LadderCase{"ScopeUnknown",
                   {"period: 2 level: 7", kAll},
                   {"ladder[0].level is the unknown number 7; allowed is node, rack, all"}}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Formats, LadderTest,
    ::testing::Values(LadderCase{
        "Unknown",
        {"period: 8 size: 8 format: 9"},
        {"ladder[0].format is the unknown number 9; allowed is fp32, fp16, bf16, "
         "int8, fp8, int4"}}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Whole, LadderTest,
    ::testing::Values(
        LadderCase{"NoLevels", {}, {}},
        LadderCase{"AllProblemsAtOnce",
                   {"period: 0 size: 2", "period: 4 size: 3", kAll},
                   {"ladder[0].period is missing or 0; give the steps between two means, 1 or more",
                    "ladder[1].size is 3; allowed are multiples of the size before it (2) that are "
                    "above it"}}),
    Name);

TEST(StrategyTest, SoundOnesHaveNoProblems) {
  for (const char* strategy :
       {"", "ddp {}", "local_sgd { period: 1 }", "local_sgd { period: 4 } warmup_steps: 13",
        "local_sgd { period: 4 } gradient_group_size: 1",
        "local_sgd { period: 4 } gradient_group_size: 8",
        "local_sgd { period: 4 format: WIRE_FORMAT_FP8 }",
        "local_sgd { period: 4 } optimizer_state: OPTIMIZER_STATE_AVERAGE"}) {
    EXPECT_THAT(Problems(strategy), IsEmpty()) << strategy;
  }
}

TEST(StrategyTest, LocalSgdNeedsAPeriod) {
  EXPECT_THAT(Problems("local_sgd {}"),
              ElementsAre("local_sgd.period is missing or 0; give the steps between two means, 1 "
                          "or more"));
  EXPECT_THAT(Problems("local_sgd { period: -1 }"),
              ElementsAre("local_sgd.period is -1; allowed is 1 and more"));
  EXPECT_THAT(Problems("local_sgd { period: 1 format: 9 }"),
              ElementsAre("local_sgd.format is the unknown number 9; allowed is fp32, fp16, bf16, "
                          "int8, fp8, int4"));
}

TEST(StrategyTest, OuterStepsHaveAKindAndPossibleNumbers) {
  const std::string sound = "outer { kind: OUTER_NESTEROV }";
  EXPECT_THAT(Problems("local_sgd { period: 500 " + sound + " }"), IsEmpty());
  EXPECT_THAT(Problems("hsgd { ladder { period: 2 size: 2 } ladder { period: 8 size: 8 "
                       "format: WIRE_FORMAT_INT8 " +
                       sound + " } }"),
              IsEmpty());
  EXPECT_THAT(
      Problems("hsgd { ladder { period: 8 size: 8 format: WIRE_FORMAT_INT8 " + sound + " } }"),
      IsEmpty())
      << "in the first level too";
  EXPECT_THAT(Problems("local_sgd { period: 500 outer {} }"),
              ElementsAre("local_sgd.outer.kind is missing; give nesterov (DiLoCo) or slowmo"));
  EXPECT_THAT(Problems("hsgd { ladder { period: 8 size: 8 outer { kind: 9 learning_rate: -1 "
                       "momentum: 1 } } }"),
              ElementsAre("hsgd.ladder[0].outer.kind is the unknown number 9; allowed is "
                          "nesterov, slowmo",
                          "hsgd.ladder[0].outer.learning_rate is -1; allowed is more than 0",
                          "hsgd.ladder[0].outer.momentum is 1; allowed is 0 <= x < 1"));
}

TEST(StrategyTest, Int4IsForLevelsThatEndInAnOuterStep) {
  const std::string int4 = "format: WIRE_FORMAT_INT4 ";
  const std::string outer = "outer { kind: OUTER_NESTEROV } ";
  const std::string why =
      ".format is int4, which has 15 values and is for levels that end in an outer step; give "
      "int8, or outer too";
  EXPECT_THAT(Problems("local_sgd { period: 50 " + int4 + outer + "}"), IsEmpty());
  EXPECT_THAT(Problems("hsgd { ladder { period: 2 size: 2 " + int4 + outer +
                       "} ladder { period: 50 size: 8 " + int4 + outer + "} }"),
              IsEmpty());
  EXPECT_THAT(Problems("local_sgd { period: 50 " + int4 + "}"), ElementsAre("local_sgd" + why));
  EXPECT_THAT(Problems("hsgd { ladder { period: 2 size: 2 " + int4 +
                       "} ladder { period: 50 size: 8 " + int4 + outer + "} }"),
              ElementsAre("hsgd.ladder[0]" + why))
      << "an outer step above it is another level's";
  const v1::JobSpec spec = SpecWith("hsgd { ladder { period: 50 size: 8 " + int4 + "} }");
  const std::vector<SpecProblem> problems =
      CheckLadder(spec.strategy().hsgd().ladder(), 8, 1, "ladder");
  ASSERT_THAT(problems, SizeIs(1)) << "of a change, too";
  EXPECT_EQ(problems[0].field + " " + problems[0].message, "ladder[0]" + why);
}

TEST(StrategyTest, OuterStepsNeedGroups) {
  const std::string why =
      " is given for groups of one, which have nothing to average: leave it out, or take more "
      "ranks";
  EXPECT_THAT(Problems("hsgd { ladder { period: 2 size: 1 outer { kind: OUTER_SLOWMO } } "
                       "ladder { period: 8 size: 8 } }"),
              ElementsAre("hsgd.ladder[0].outer" + why));
  v1::JobSpec spec = SpecWith("local_sgd { period: 8 outer { kind: OUTER_SLOWMO } }");
  spec.set_ranks(1);
  const std::vector<SpecProblem> problems = CheckJobSpec(spec);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].field + problems[0].message, "strategy.local_sgd.outer" + why.substr(1));
}

TEST(StrategyTest, StreamedOuterStepsFitTheirPeriod) {
  const auto level = [](const std::string& keys) {
    return "hsgd { ladder { period: 12 size: 8 outer { kind: OUTER_NESTEROV " + keys + " } } }";
  };
  EXPECT_THAT(Problems(level("fragments: 4 delay: 2 alpha: 0.5")), IsEmpty());
  EXPECT_THAT(Problems(level("delay: 11")), IsEmpty());
  EXPECT_THAT(Problems("local_sgd { period: 12 outer { kind: OUTER_SLOWMO fragments: 3 } }"),
              IsEmpty());
  EXPECT_THAT(Problems(level("fragments: 5")),
              ElementsAre("hsgd.ladder[0].outer.fragments is 5; allowed are the divisors of the "
                          "period (12)"));
  EXPECT_THAT(Problems(level("fragments: 4 delay: 3")),
              ElementsAre("hsgd.ladder[0].outer.delay is 3; allowed is less than the 3 steps from "
                          "one average to the next (period / fragments)"));
  EXPECT_THAT(Problems("local_sgd { period: 12 outer { kind: OUTER_SLOWMO delay: 12 } }"),
              ElementsAre("local_sgd.outer.delay is 12; allowed is less than the 12 steps from one "
                          "average to the next (period / fragments)"));
  EXPECT_THAT(Problems(level("fragments: -1 delay: -1 alpha: 1")), SizeIs(3));
}

TEST(StrategyTest, StreamedOuterStepsAreAlone) {
  const std::string streamed = "outer { kind: OUTER_NESTEROV fragments: 2 } ";
  const std::string rest = ": leave these out, or give one level without shards";
  const std::string keys = "hsgd.ladder[0].outer has fragments, delay or alpha, but ";
  for (const char* const format : {"int4", "int8", "fp8", "fp16", "bf16"}) {
    const std::string given =
        absl::StrCat("format: WIRE_FORMAT_", absl::AsciiStrToUpper(format), " ");
    EXPECT_THAT(
        Problems(absl::StrCat("hsgd { ladder { period: 8 size: 8 ", given, streamed, "} }")),
        IsEmpty())
        << format;
    EXPECT_THAT(Problems(absl::StrCat("local_sgd { period: 8 ", given, streamed, "}")), IsEmpty())
        << format;
  }
  EXPECT_THAT(Problems("hsgd { ladder { period: 2 size: 2 " + streamed +
                       "} ladder { period: 8 size: 8 } }"),
              ElementsAre(keys + "the ladder has several levels" + rest));
  const std::string sound = "hsgd { ladder { period: 8 size: 8 " + streamed + "} } ";
  EXPECT_THAT(Problems(sound + "optimizer_state: OPTIMIZER_STATE_AVERAGE"), SizeIs(1));
  EXPECT_THAT(Problems(sound + "optimizer_state: OPTIMIZER_STATE_LOCAL"), IsEmpty());
  v1::JobSpec spec = SpecWith(sound);
  EXPECT_THAT(CheckJobSpec(spec), IsEmpty());
  spec.set_precision(v1::BF16_FULL);
  const std::vector<SpecProblem> problems = CheckJobSpec(spec);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field, "precision");
  v1::Hsgd hsgd = spec.strategy().hsgd();
  EXPECT_THAT(CheckLadder(hsgd.ladder(), 8, 1, "ladder"), IsEmpty());
  hsgd.mutable_ladder(0)->set_size(4);
  EXPECT_EQ(CheckLadder(hsgd.ladder(), 8, 2, "ladder").at(0).field, "ladder[0].outer");
}

TEST(StrategyTest, WarmupIsNotNegative) {
  EXPECT_THAT(Problems("local_sgd { period: 1 } warmup_steps: -1"),
              ElementsAre("warmup_steps is -1; allowed is 0 and more"));
}

TEST(StrategyTest, GradientGroupsDivideTheRanks) {
  for (const char* size : {"3", "-1", "16"}) {
    EXPECT_THAT(Problems(std::string("local_sgd { period: 1 } gradient_group_size: ") + size),
                ElementsAre(std::string("gradient_group_size is ") + size +
                            "; allowed is 0 for the ranks of each node, or a divisor of the number "
                            "of ranks (8)"));
  }
}

TEST(StrategyTest, OptimizerStateIsKnown) {
  EXPECT_THAT(Problems("local_sgd { period: 1 } optimizer_state: 9"),
              ElementsAre("optimizer_state is the unknown number 9; allowed is local, average"));
}

TEST(StrategyTest, DdpHasNothingOfTheOthers) {
  const std::string why = "; kind ddp has none: leave it out, or give kind local_sgd or hsgd";
  EXPECT_THAT(Problems("ddp {} warmup_steps: 5 gradient_group_size: 2 "
                       "optimizer_state: OPTIMIZER_STATE_LOCAL"),
              ElementsAre("warmup_steps is 5" + why, "gradient_group_size is 2" + why,
                          "optimizer_state is local" + why));
}

TEST(StrategyTest, LadderIsNotJudgedByAnImpossibleNumberOfRanks) {
  v1::JobSpec spec = SpecWith(
      "hsgd { ladder { period: 2 size: 3 } ladder { period: 4 size: 9 } } gradient_group_size: 5");
  spec.set_ranks(-1);
  const std::vector<SpecProblem> problems = CheckJobSpec(spec);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].field, "ranks");
}

TEST(CheckLadderTest, NamesTheGivenField) {
  v1::Hsgd hsgd;
  EXPECT_THAT(CheckLadder(hsgd.ladder(), 8, 1, "ladder"), IsEmpty()) << "synchronous";
  v1::LadderLevel* level = hsgd.add_ladder();
  level->set_period(1);
  level->set_size(4);
  EXPECT_THAT(CheckLadder(hsgd.ladder(), 4, 1, "ladder"), IsEmpty());
  EXPECT_EQ(CheckLadder(hsgd.ladder(), 8, 1, "ladder").at(0).field, "ladder[0].size");
}

TEST(CheckLadderTest, StreamedOnesFitTheJob) {
  const auto ladder = [](const std::string& keys) {
    return SpecWith("hsgd { ladder { period: 8 size: 8 outer { kind: OUTER_NESTEROV " + keys +
                    "} } }")
        .strategy()
        .hsgd()
        .ladder();
  };
  const v1::JobSpec plain = SpecWith("local_sgd { period: 4 }");
  v1::JobSpec averaged = plain;
  averaged.mutable_strategy()->set_optimizer_state(v1::OPTIMIZER_STATE_AVERAGE);
  v1::JobSpec bf16_full = plain;
  bf16_full.set_precision(v1::BF16_FULL);
  for (const char* const keys : {"fragments: 2 ", "delay: 3 ", "alpha: 0.5 "}) {
    EXPECT_THAT(CheckLadderFits(ladder(keys), plain, "ladder"), IsEmpty()) << keys;
    for (const auto& [spec, why] : {std::pair(averaged, "optimizer_state average"),
                                    std::pair(bf16_full, "precision bf16_full")}) {
      const std::vector<SpecProblem> problems = CheckLadderFits(ladder(keys), spec, "ladder");
      ASSERT_THAT(problems, SizeIs(1)) << keys << why;
      EXPECT_EQ(problems[0].field, "ladder[0].outer");
      EXPECT_EQ(problems[0].message,
                absl::StrCat("has fragments, delay or alpha, which do not go with the job's ", why,
                             ": leave these out"));
    }
  }
  EXPECT_THAT(CheckLadderFits(ladder(""), averaged, "ladder"), IsEmpty()) << "not streamed";
  EXPECT_THAT(CheckLadderFits(ladder("fragments: 1 "), bf16_full, "ladder"), IsEmpty());
}

}  // namespace
}  // namespace paceline
