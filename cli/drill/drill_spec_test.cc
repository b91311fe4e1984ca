#include "cli/drill/drill_spec.h"

#include <string>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Session() {
  v1::JobSpec spec;
  spec.set_name("my-net");
  spec.set_ranks(4);
  spec.add_command("train.py");
  spec.set_working_directory("/home/ann");
  spec.set_session(true);
  spec.set_steps(100000);
  spec.set_queue("research");
  spec.set_resume_from("my-net/500");
  spec.mutable_tracker()->mutable_tensorboard()->set_directory("/tb");
  spec.mutable_placement()->add_nodes("n1");
  spec.mutable_evaluation()->set_every(10);
  spec.mutable_recovery()->set_max_failures(10);
  spec.mutable_recovery()->set_min_ranks(2);
  spec.mutable_checkpoint()->set_directory("/shared");
  spec.mutable_checkpoint()->set_every_s(600);
  FillDefaults(&spec);
  return spec;
}

DrillChanges Changes() {
  DrillChanges changes;
  changes.steps = 24;
  changes.directory = "/tmp/drill-1";
  return changes;
}

TEST(DrillSpecTest, IsShortAndTellsEachStep) {
  const v1::JobSpec spec = DrillSpec(Session(), Changes());
  EXPECT_EQ(spec.name(), "drill-my-net");
  EXPECT_EQ(spec.steps(), 24);
  EXPECT_EQ(spec.log_every(), 1);
  EXPECT_EQ(spec.resume_from(), "");
  EXPECT_FALSE(spec.has_tracker());
  EXPECT_EQ(spec.checkpoint().directory(), "/tmp/drill-1");
  EXPECT_EQ(spec.checkpoint().every_steps(), 4) << "few steps have saves, too";
  EXPECT_FALSE(spec.checkpoint().at_end());
  EXPECT_TRUE(spec.checkpoint().sample_ledger());
  EXPECT_EQ(spec.recovery().min_ranks(), 4) << "the steps of fewer ranks would be others";
  EXPECT_EQ(spec.hang_timeout_s(), Session().hang_timeout_s());
}

TEST(DrillSpecTest, WhereItTrainsStaysOnTheClusterOfOthers) {
  EXPECT_EQ(DrillSpec(Session(), Changes()).placement().nodes_size(), 0);
  DrillChanges changes = Changes();
  changes.own_cluster = false;
  changes.ranks = 2;
  const v1::JobSpec spec = DrillSpec(Session(), changes);
  EXPECT_EQ(spec.placement().nodes_size(), 1);
  EXPECT_EQ(spec.queue(), "research");
  EXPECT_EQ(spec.ranks(), 2);
}

TEST(DrillSpecTest, EveryFaultMakesASoundSpec) {
  for (const DrillFault fault :
       {DrillFault::kNone, DrillFault::kKill, DrillFault::kStop, DrillFault::kSlow,
        DrillFault::kDrain, DrillFault::kFullDisk, DrillFault::kController}) {
    for (const int64_t steps : {kLeastDrillSteps, int64_t{25}}) {
      DrillChanges changes = Changes();
      changes.steps = steps;
      v1::JobSpec spec = DrillSpec(Session(), changes);
      AddFault(fault, absl::Milliseconds(500), "/tmp/over", &spec);
      FillDefaults(&spec);
      for (const SpecProblem& problem : CheckJobSpec(spec)) {
        ADD_FAILURE() << FaultName(fault) << ": " << problem.field << " " << problem.message;
      }
    }
  }
}

TEST(DrillSpecTest, AFaultHitsARankOnceAndNotItsSuccessor) {
  v1::JobSpec spec = DrillSpec(Session(), Changes());
  AddFault(DrillFault::kKill, absl::ZeroDuration(), "", &spec);
  ASSERT_EQ(spec.chaos_size(), 1);
  EXPECT_TRUE(spec.allow_chaos());
  EXPECT_EQ(spec.chaos(0).kind(), v1::KILL);
  EXPECT_EQ(spec.chaos(0).rank(), 3);
  EXPECT_EQ(spec.chaos(0).step(), 8);
  EXPECT_EQ(spec.chaos(0).generation(), 1);
}

TEST(DrillSpecTest, StepsAreHeldUpBeforeARankIsLostAndNotAfter) {
  v1::JobSpec spec = DrillSpec(Session(), Changes());
  AddFault(DrillFault::kKill, absl::Seconds(1), "/tmp/over", &spec);
  ASSERT_EQ(spec.chaos_size(), 2);
  EXPECT_EQ(spec.chaos(1).kind(), v1::SLEEP);
  EXPECT_EQ(spec.chaos(1).step(), 2);
  EXPECT_EQ(spec.chaos(1).step() + spec.chaos(1).steps(), spec.chaos(0).step());
  EXPECT_EQ(spec.chaos(1).until_file(), "/tmp/over");
}

TEST(DrillSpecTest, AFullDiskHasSomethingToSave) {
  v1::JobSpec session = Session();
  session.mutable_checkpoint()->set_every_s(0);
  v1::JobSpec spec = DrillSpec(session, Changes());
  EXPECT_EQ(spec.checkpoint().every_steps(), 0);
  AddFault(DrillFault::kFullDisk, absl::Seconds(1), "/tmp/over", &spec);
  EXPECT_GT(spec.checkpoint().every_steps(), 0);
  ASSERT_EQ(spec.chaos_size(), 1);
  EXPECT_EQ(spec.chaos(0).rank(), -1);
  EXPECT_EQ(spec.chaos(0).until_file(), "/tmp/over");
}

TEST(DrillSpecTest, LocalAveragesAreNotComparedAndSlipstreamHasNoLedger) {
  EXPECT_EQ(JudgedJobOf(Session()).losses_differ_anyway, "");
  v1::JobSpec spec = Session();
  spec.mutable_strategy()->mutable_local_sgd()->set_period(4);
  EXPECT_NE(JudgedJobOf(spec).losses_differ_anyway, "");
  spec.mutable_strategy()->mutable_slipstream();
  EXPECT_FALSE(DrillSpec(spec, Changes()).checkpoint().sample_ledger());
}

TEST(DrillSpecTest, OtherJobsAreRefused) {
  v1::JobSpec spec = Session();
  EXPECT_TRUE(CheckForDrill(spec, /*own_cluster=*/true).ok());
  spec.set_device(v1::CUDA);
  EXPECT_THAT(std::string(CheckForDrill(spec, true).message()), HasSubstr("--on-cluster"));
  EXPECT_TRUE(CheckForDrill(spec, false).ok());
  spec.set_session(false);
  EXPECT_THAT(std::string(CheckForDrill(spec, false).message()), HasSubstr("session: true"));
}

}  // namespace
}  // namespace paceline
