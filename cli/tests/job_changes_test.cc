// Changes of a job (`job label`, `ladder`, `mode`, `profile`), and their output, against a
// controller on a real socket.
#include <string>

#include "cli/exit_codes.h"
#include "cli/testing/small_job_test.h"
#include "cli/text/message_json.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using JobChangesTest = SmallJobTest;

TEST_F(JobChangesTest, WhyTellsALinePerObstacle) {
  controller_.SetJobs({Job(1, "reason: 'It waits for 2 slots.'")});
  EXPECT_EQ(Paceline({"job", "why", "small"}).out, "It waits for 2 slots.\n");
  controller_.SetJobs({Job(1, "")});
  const Ran ran = Paceline({"job", "why", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "Nothing is in its way.\n");
}

TEST_F(JobChangesTest, LabelsAreChangedAndShown) {
  EXPECT_EQ(Paceline({"job", "label", "small"}).out, "small (job-0123456789ab): no labels\n");
  EXPECT_THAT(controller_.relabels(), IsEmpty());
  const Ran set = Paceline({"job", "label", "small", "team=vision", "model=llama"});
  EXPECT_EQ(set.exit, kCliOk) << set.err;
  EXPECT_EQ(set.out, "small (job-0123456789ab): model=llama,team=vision\n");
  EXPECT_EQ(Paceline({"job", "label", "small", "team-", "--description", "one\ntwo"}).out,
            "small (job-0123456789ab): model=llama\n  one\n  two\n");
  EXPECT_EQ(Paceline({"job", "label", "small", "--description", ""}).out,
            "small (job-0123456789ab): model=llama\n");
  ASSERT_THAT(controller_.relabels(), SizeIs(3));
  EXPECT_THAT(controller_.relabels()[0].labels(), ElementsAre("team=vision", "model=llama"));
  EXPECT_FALSE(controller_.relabels()[0].has_description());
  EXPECT_THAT(controller_.relabels()[0].request_id(), SizeIs(36));
  EXPECT_THAT(controller_.relabels()[2].labels(), IsEmpty());
  EXPECT_TRUE(controller_.relabels()[2].has_description());
}

TEST_F(JobChangesTest, LabelsThatAreRefusedAreAnError) {
  controller_.FailNext(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "labels has \"te am\""));
  const Ran ran = Paceline({"job", "label", "small", "te am"});
  EXPECT_NE(ran.exit, kCliOk);
  EXPECT_THAT(ran.err, HasSubstr("te am"));
  EXPECT_EQ(Paceline({"job", "label", "small", "--request-id", "one"}).exit, kCliUsage);
}

TEST_F(JobChangesTest, LadderWithoutAnArgumentIsShown) {
  const Ran ran = Paceline({"job", "ladder", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "small (job-0123456789ab): hsgd 2:1,4:all, plan version 1, since step 0\n");
  EXPECT_THAT(controller_.ladders(), IsEmpty());
}

TEST_F(JobChangesTest, LadderIsSentAsItIsWritten) {
  const Ran ran = Paceline({"job", "ladder", kId, "2:node,4:rack:int8,8:all:int8"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(
      ran.out,
      "small (job-0123456789ab): hsgd 2:node,4:rack:int8,8:all:int8, plan version 2, not taken up "
      "yet: plan version 1 since step 0\n");
  ASSERT_THAT(controller_.ladders(), SizeIs(1));
  const v1::ChangeLadderRequest request = controller_.ladders()[0];
  EXPECT_EQ(request.job(), kId);
  EXPECT_THAT(request.request_id(), SizeIs(36));
  ASSERT_EQ(request.ladder_size(), 3);
  EXPECT_EQ(request.ladder(1).period(), 4);
  EXPECT_EQ(request.ladder(1).level(), v1::SCOPE_RACK);
  EXPECT_EQ(request.ladder(2).format(), v1::WIRE_FORMAT_INT8);
}

TEST_F(JobChangesTest, LadderCanBeGivenUpForSynchronousSteps) {
  const Ran ran = Paceline({"job", "ladder", kId, "synchronous"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("hsgd synchronous, plan version 2"));
  ASSERT_THAT(controller_.ladders(), SizeIs(1));
  EXPECT_THAT(controller_.ladders()[0].ladder(), IsEmpty());
}

TEST_F(JobChangesTest, LadderThatIsNoneIsWrongUsageAndNotSent) {
  const Ran ran = Paceline({"job", "ladder", kId, "2:2,x"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("\"x\" is no level"));
  EXPECT_EQ(Paceline({"job", "ladder", kId, "--wait"}).exit, kCliUsage);
  EXPECT_THAT(controller_.ladders(), IsEmpty());
}

TEST_F(JobChangesTest, RefusalOfALadderIsTold) {
  controller_.FailNext(
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "plan version 2 is pending"));
  const Ran ran = Paceline({"job", "ladder", kId, "2:2"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("plan version 2 is pending"));
}

TEST_F(JobChangesTest, WaitEndsWhenAllRanksTrainByTheLadder) {
  WatchShows(
      {"plan { version: 2 }", "plan { version: 2 active_version: 2 active_since_step: 128 }"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("plan version 2, since step 128\n"));
}

TEST_F(JobChangesTest, LadderOfAPeriodIsShownAsOneLevel) {
  v1::Job job = Job(1, "");
  job.mutable_plan()->mutable_strategy()->mutable_local_sgd()->set_period(8);
  controller_.SetJobs({job});
  const Ran ran = Paceline({"job", "ladder", kId});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "small (job-0123456789ab): local_sgd 8:all, plan version 1, since step 0\n");
}

TEST_F(JobChangesTest, WaitFailsWhenARankCannotPrepareTheLadder) {
  // From a previous version, and from this one.
  WatchShows({R"(plan { version: 2 } ranks { rank: 1 plan { failed_version: 1 error: "old" } })",
              R"(plan { version: 2 } ranks { rank: 1 plan { failed_version: 2 error: "late" } })"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out,
              HasSubstr("plan version 1 since step 0; rank 1 could not prepare it: late\n"));
  EXPECT_THAT(ran.err,
              HasSubstr("plan version 2 is not taken up: rank 1 could not prepare it: late"));
}

TEST_F(JobChangesTest, WaitFailsWhenTheJobEndsBefore) {
  WatchShows({"plan { version: 2 } state: SUCCEEDED"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.err, HasSubstr("ended before its ranks took plan version 2 up"));
}

TEST_F(JobChangesTest, ModeIsShownAndSentAsItIsWritten) {
  v1::Job job = Job(1, "");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "slipstream { mode: SLIPSTREAM_FREE window { min_steps: 1 max_steps: 64 max_cap: 256 } }",
      job.mutable_plan()->mutable_strategy()));
  controller_.SetJobs({job});
  Ran ran = Paceline({"job", "mode", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(
      ran.out,
      "small (job-0123456789ab): slipstream free, window 1:64:256, plan version 1, since step 0\n");
  EXPECT_THAT(controller_.modes(), IsEmpty());

  ran = Paceline({"job", "mode", kId, "pause", "--window", "2:16", "--optimizer-state", "average"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("plan version 2, not taken up yet: plan version 1 since step 0\n"));
  ran = Paceline({"job", "mode", kId, "drop", "--request-id", "mine"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("slipstream drop, plan version 2"));
  ASSERT_THAT(controller_.modes(), SizeIs(2));
  EXPECT_EQ(controller_.modes()[0].mode(), v1::SLIPSTREAM_PAUSE);
  EXPECT_EQ(controller_.modes()[0].window().max_steps(), 16);
  EXPECT_EQ(controller_.modes()[0].optimizer_state(), v1::OPTIMIZER_STATE_AVERAGE);
  EXPECT_EQ(controller_.modes()[1].mode(), v1::SLIPSTREAM_DROP);
  EXPECT_EQ(controller_.modes()[1].request_id(), "mine");
  EXPECT_FALSE(controller_.modes()[1].has_window());
}

TEST_F(JobChangesTest, ModeThatIsNoneIsWrongUsageAndNotSent) {
  EXPECT_EQ(Paceline({"job", "mode", kId, "fast"}).exit, kCliUsage);
  EXPECT_THAT(Paceline({"job", "mode", kId, "--window", "4"}).err, HasSubstr("is no window"));
  const Ran ran = Paceline({"job", "mode", kId, "--wait"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("nothing is to be changed"));
  EXPECT_THAT(controller_.modes(), IsEmpty());
}

TEST_F(JobChangesTest, WaitEndsWhenAllRanksTrainInTheMode) {
  WatchShows(
      {"plan { version: 2 }", "plan { version: 2 active_version: 2 active_since_step: 128 }"});
  const Ran ran = Paceline({"job", "mode", kId, "free", "--wait"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("plan version 2, since step 128\n"));
}

TEST_F(JobChangesTest, ProfileWaitsForTheRanksAndShowsTheirFiles) {
  const std::string request = "profile { request { id: 1 first_step: 40 steps: 2 } ranks: 1 } ";
  WatchShows({request, request + R"(ranks { rank: 1 node: "w1"
      profile { id: 1 trace: "/p/rank1.json" first_step: 40 steps: 2 trace_bytes: 10 } })"});
  const Ran ran = Paceline({"job", "profile", kId, "--steps", "2", "--ranks", "1"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "RANK  NODE  STEPS  SIZE   DUMP  FILE           ERROR\n"
            "   1  w1    40-41  10 B  0.0 s  /p/rank1.json  -\n");
  EXPECT_THAT(ran.err, HasSubstr("steps 40 to 41 on ranks 1"));
  ASSERT_THAT(controller_.profiles(), SizeIs(1));
  EXPECT_EQ(controller_.profiles()[0].steps(), 2);
  EXPECT_THAT(controller_.profiles()[0].ranks(), ElementsAre(1));
  EXPECT_FALSE(controller_.profiles()[0].memory());
}

TEST_F(JobChangesTest, ProfileFailsWhenARankDoes) {
  const std::string request =
      "profile { request { id: 1 first_step: 40 steps: 3 } ranks: [0, 1] } ";
  WatchShows({request + R"(ranks { rank: 0 profile { id: 1 trace: "/p" steps: 3 } }
                           ranks { rank: 1 profile { id: 1 error: "no space" } })"});
  const Ran ran = Paceline({"job", "profile", kId, "--ranks", "0-1", "--output", "json"});
  EXPECT_EQ(ran.exit, kCliFailed);
  v1::Job job;
  ASSERT_TRUE(MessageFromJson(ran.out, &job)) << ran.out;
  EXPECT_EQ(job.ranks(1).profile().error(), "no space");
}

TEST_F(JobChangesTest, ProfileOfAJobThatEndsBeforeFails) {
  WatchShows({"profile { request { id: 1 steps: 3 } ranks: 0 } state: FAILED"});
  const Ran ran = Paceline({"job", "profile", kId, "--ranks", "0"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("none"));
}

TEST_F(JobChangesTest, ProfileThatAChangeOfTheRanksWithdrawsFails) {
  WatchShows({"profile { request { id: 1 steps: 3 } ranks: 0 }",
              "profile { request { id: 1 steps: 3 } } state: RECOVERING"});
  const Ran ran = Paceline({"job", "profile", kId, "--ranks", "0"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("no profile: the job's ranks changed meanwhile; ask again"));
}

TEST_F(JobChangesTest, ProfileNeedNotBeWaitedFor) {
  const Ran ran = Paceline({"job", "profile", kId, "--no-wait", "--ranks", "0,1", "--memory"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "profile 1 of small (job-0123456789ab): steps 40 to 42 on ranks 0,1\n");
  EXPECT_TRUE(controller_.profiles().at(0).memory());
  EXPECT_EQ(Paceline({"job", "profile", kId, "--ranks", "x"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "profile", kId, "--steps", "101"}).exit, kCliUsage);
}

}  // namespace
}  // namespace paceline
