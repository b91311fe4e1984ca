#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

v1::JobSpec Spec(const std::string& changes) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' ranks: 4 model { mlp {} } data { train: '/train' } steps: 100 "
      "optimizer { sgd {} learning_rate: 0.1 } " +
          changes,
      &spec))
      << changes;
  return spec;
}

std::vector<std::string> Texts(const std::vector<SpecProblem>& problems) {
  std::vector<std::string> texts;
  for (const SpecProblem& problem : problems) {
    texts.push_back(problem.field + " " + problem.message);
  }
  return texts;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const std::string& changes) {
  return Texts(CheckJobSpec(Spec(changes)));
}

// Two ranks would share 6 samples in passes of one, which cannot be normalised.
TEST(CheckShrinkingTest, AModelThatNormalisesGetsNoPassOfOneSample) {
  v1::JobSpec spec = Spec("batch_per_rank: 2 recovery { max_failures: 1 min_ranks: 2 }");
  spec.set_ranks(3);
  EXPECT_THAT(Texts(CheckJobSpec(spec)), IsEmpty());
  spec.mutable_model()->mutable_resnet18();
  EXPECT_THAT(Texts(CheckJobSpec(spec)), ElementsAre(HasSubstr("recovery.min_ranks is 2")));
  spec.mutable_model()->mutable_torchscript()->set_file("/m");
  EXPECT_THAT(Texts(CheckJobSpec(spec)), ElementsAre(HasSubstr("recovery.min_ranks is 2")));
  spec.mutable_recovery()->set_min_ranks(1);
  EXPECT_THAT(Texts(CheckJobSpec(spec)), IsEmpty());
}

TEST(CheckTimeoutsTest, DefaultsFormALadder) {
  for (const double collective : {0.001, 1.0, 60.0, 300.0, 1000.0, 1e6}) {
    v1::JobSpec spec = Spec("");
    spec.set_collective_timeout_s(collective);
    EXPECT_THAT(Texts(CheckJobSpec(spec)), IsEmpty()) << collective;
  }
  EXPECT_THAT(Problems("recovery { max_failures: 1 }"), IsEmpty());
}

TEST(CheckTimeoutsTest, PairOutOfOrderIsNamed) {
  EXPECT_THAT(
      Problems("collective_timeout_s: 30 hang_timeout_s: 30"),
      ElementsAre("hang_timeout_s is 30, not below collective_timeout_s (30); timeouts rise: "
                  "stall_warning_s (15) < hang_timeout_s (30) < collective_timeout_s (30) < "
                  "give_up_s (600)"));
  EXPECT_THAT(Problems("collective_timeout_s: 30 stall_warning_s: 25"),
              ElementsAre(StartsWith("stall_warning_s is 25, not below hang_timeout_s (20); ")));
  EXPECT_THAT(Problems("give_up_s: 200"),
              ElementsAre(StartsWith("collective_timeout_s is 300, not below give_up_s (200); ")));
  EXPECT_THAT(Problems("collective_timeout_s: 30 stall_warning_s: 1 hang_timeout_s: 2 give_up_s: "
                       "31"),
              IsEmpty());
}

TEST(CheckTimeoutsTest, EachIsPositive) {
  EXPECT_THAT(Problems("stall_warning_s: -1"), ElementsAre(StartsWith("stall_warning_s is -1")));
  EXPECT_THAT(Problems("stall_warning_s: 1 hang_timeout_s: inf give_up_s: nan"),
              ElementsAre(StartsWith("hang_timeout_s is inf"), StartsWith("give_up_s is nan")));
}

TEST(CheckLeaseTest, LeaseLiesBetweenACollectiveAndGivingUp) {
  const v1::JobSpec spec = Spec("recovery { max_failures: 1 }");
  EXPECT_THAT(CheckLease(spec, 60), IsEmpty());
  EXPECT_THAT(CheckLease(spec, 0), IsEmpty()) << "leases are off";
  EXPECT_THAT(Texts(CheckLease(spec, 30)),
              ElementsAre("collective_timeout_s is 30, not below the controller's --node-lease "
                          "(30); timeouts rise: collective_timeout_s (30) < the controller's "
                          "--node-lease (30) < give_up_s (600)"));
  EXPECT_THAT(Texts(CheckLease(spec, 600)),
              ElementsAre(StartsWith("give_up_s is 600, not above the controller's --node-lease")));
  EXPECT_THAT(CheckLease(Spec("collective_timeout_s: 300"), 60), IsEmpty())
      << "without recovery nobody is given the ranks of a node";
}

TEST(CheckRecoveryTest, CollectiveTimeoutIsShortWhereLostRanksAreReplaced) {
  v1::JobSpec spec = Spec("recovery { max_failures: 1 }");
  FillDefaults(&spec);
  EXPECT_EQ(spec.collective_timeout_s(), 30);
  EXPECT_EQ(spec.hang_timeout_s(), 20);
  EXPECT_EQ(spec.recovery().min_ranks(), 4);
}

TEST(CheckRecoveryTest, SparesAndFewerRanksNeedFailuresToBeAllowed) {
  EXPECT_THAT(Problems("recovery { spares: 1 min_ranks: 2 }"),
              ElementsAre("recovery.spares is 1; it needs recovery.max_failures above 0",
                          "recovery.min_ranks is 2; it needs recovery.max_failures above 0"));
  EXPECT_THAT(Problems("recovery { max_failures: 1 spares: 1 min_ranks: 2 }"), IsEmpty());
}

TEST(CheckRecoveryTest, CopiesNeedAStateThatIsInOnePlaceAndAStepToGoBackTo) {
  const std::string copies = "recovery { max_failures: 1 copy_every_steps: 10 } ";
  EXPECT_THAT(Problems(copies + "strategy { hsgd {} }"), IsEmpty());
  EXPECT_THAT(Problems(copies), ElementsAre(StartsWith("recovery.copy_every_steps is 10, but each "
                                                       "rank has all of the state already")));
  EXPECT_THAT(
      Problems(copies + "strategy { slipstream {} }"),
      ElementsAre(StartsWith("recovery.copy_every_steps is 10 beside strategy slipstream")));
  EXPECT_THAT(Problems("recovery { copy_every_steps: 10 }"),
              ElementsAre("recovery.copy_every_steps is 10; it needs recovery.max_failures above "
                          "0"));
  v1::JobSpec alone = Spec(copies + "strategy { hsgd {} }");
  alone.set_ranks(1);
  EXPECT_THAT(Texts(CheckJobSpec(alone)), ElementsAre(StartsWith("recovery.copy_every_steps is 10, "
                                                                 "but the one rank has no other")));
}

TEST(CheckRecoveryTest, RangesAreChecked) {
  EXPECT_THAT(
      Problems("recovery { max_failures: -1 window_s: -1 spares: -1 batch: 9 }"),
      ElementsAre(StartsWith("recovery.max_failures is -1"), StartsWith("recovery.window_s is -1"),
                  StartsWith("recovery.spares is -1"), StartsWith("recovery.batch is")));
  EXPECT_THAT(Problems("recovery { max_failures: 1 min_ranks: 5 }"),
              ElementsAre(StartsWith("recovery.min_ranks is 5")));
}

TEST(CheckRecoveryTest, JobThatMayGrowHasANumberOfRanksToGrowTo) {
  const std::string by_rank = "batch: KEEP_RANK_BATCH ";
  EXPECT_THAT(Problems("recovery { max_ranks: 8 }"),
              ElementsAre("recovery.max_ranks is 8; it needs recovery.max_failures above 0"));
  EXPECT_THAT(Problems("recovery { max_failures: 1 max_ranks: 5 " + by_rank + "}"), IsEmpty());
  EXPECT_THAT(Problems("recovery { max_failures: 1 max_ranks: 4 }"), IsEmpty())
      << "it starts with fewer, and that is all";
  EXPECT_THAT(Problems("recovery { max_failures: 1 max_ranks: 3 " + by_rank + "}"),
              ElementsAre("recovery.max_ranks is 3; allowed is 0, or ranks (4) and more"));
  EXPECT_THAT(Problems("batch_per_rank: 32 recovery { max_failures: 1 max_ranks: 7 }"),
              ElementsAre(HasSubstr("128 samples per step cannot be shared equally by any number "
                                    "of ranks from 5 to there")));
  EXPECT_THAT(Problems("batch_per_rank: 32 recovery { max_failures: 1 max_ranks: 8 }"), IsEmpty());
  EXPECT_THAT(Problems("recovery { max_failures: 1 max_ranks: 8 " + by_rank +
                       "} strategy { slipstream {} }"),
              ElementsAre(StartsWith("recovery.max_ranks is 8 beside strategy slipstream")));
}

TEST(CheckRankScaleTest, LearningRateFollowsRanksOnlyWhereTheyShareStepsAndKeepTheirBatch) {
  const std::string linear = "schedule { scale_with_ranks: RANK_SCALE_LINEAR } ";
  EXPECT_THAT(Problems(linear + "recovery { max_failures: 1 batch: KEEP_RANK_BATCH }"), IsEmpty());
  EXPECT_THAT(Problems(linear), ElementsAre(HasSubstr("scale_with_ranks is linear, but a step has "
                                                      "as many samples")));
  EXPECT_THAT(Problems(linear + "recovery { max_failures: 1 batch: KEEP_RANK_BATCH } "
                                "strategy { local_sgd { period: 2 } }"),
              ElementsAre(HasSubstr("it needs strategy ddp")));
  EXPECT_THAT(Problems("schedule { scale_with_ranks: RANK_SCALE_NONE }"), IsEmpty());
}

TEST(CheckRecoveryTest, JobThatMayShrinkHasANumberOfRanksToShrinkTo) {
  EXPECT_THAT(Problems("batch_per_rank: 32 recovery { max_failures: 1 min_ranks: 3 }"),
              ElementsAre(HasSubstr("128 samples per step cannot be shared equally by any number "
                                    "of ranks from there to 3; the next is 2")));
  EXPECT_THAT(Problems("batch_per_rank: 30 recovery { max_failures: 1 min_ranks: 3 }"), IsEmpty());
  EXPECT_THAT(Problems("recovery { max_failures: 1 min_ranks: 3 batch: KEEP_RANK_BATCH }"),
              IsEmpty());
}

}  // namespace
}  // namespace paceline
