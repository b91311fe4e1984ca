// The verbs about nodes and the automation against a controller on a real socket.
#include <string>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_errors.h"
#include "cli/testing/parsed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::NodeEvent Changed(int revision, const std::string& node) {
  v1::NodeEvent event;
  event.set_type(v1::MODIFIED);
  *event.mutable_node() = Parsed<v1::Node>(node);
  event.mutable_node()->set_revision(revision);
  event.set_revision(revision);
  return event;
}

class NodesTest : public CommandTest {
 protected:
  NodesTest() {
    environment_["USER"] = "ann";
    controller_.nodes().SetNodes({Parsed<v1::Node>(R"(name: "a" state: NODE_READY)"),
                                  Parsed<v1::Node>(R"(name: "n01" state: NODE_READY)"),
                                  Parsed<v1::Node>(R"(name: "n02" state: NODE_READY)")});
  }
  std::vector<std::string> requests() { return controller_.nodes().requests(); }
};

TEST_F(NodesTest, CordonIsInTheUsersNameAndSaysWhy) {
  const Ran ran = Paceline({"node", "cordon", "a", "--reason", "its fan is loud"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "a is CORDONED: cordoned by ann: its fan is loud\n");
  ASSERT_THAT(requests(), SizeIs(1));
  EXPECT_THAT(requests()[0], HasSubstr(R"(Cordon name: "a" request_id: ")"));
  EXPECT_THAT(requests()[0], HasSubstr(R"(reason: "its fan is loud" owner: "ann")"));
}

TEST_F(NodesTest, CordonMayEndByItselfAndBeInAnothersName) {
  Paceline({"node", "cordon", "a", "--reason", "x", "--for", "60", "--owner", "bob", "--request-id",
            "r-1"});
  EXPECT_THAT(requests()[0], HasSubstr(R"(request_id: "r-1" reason: "x" owner: "bob" until)"));
}

TEST_F(NodesTest, WithoutAReasonOrAnOwnerNothingIsSent) {
  EXPECT_EQ(Paceline({"node", "cordon", "a"}).exit, kCliUsage);
  environment_.erase("USER");
  const Ran ran = Paceline({"node", "cordon", "a", "--reason", "x"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("--owner NAME"));
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(NodesTest, ChangesAreInTheNameOfTheAccountWithoutAUser) {
  environment_.erase("USER");
  account_ = "root";
  EXPECT_EQ(Paceline({"node", "cordon", "a", "--reason", "x"}).exit, kCliOk);
  EXPECT_EQ(Paceline({"node", "resume", "a"}).exit, kCliOk);
  EXPECT_THAT(requests(), SizeIs(2));
  EXPECT_THAT(requests(), Each(HasSubstr("owner: \"root\"")));
}

TEST_F(NodesTest, SeveralNodesAreNamedByARange) {
  const Ran ran = Paceline({"node", "uncordon", "n[01-02],zz", "a"});
  EXPECT_EQ(ran.exit, kCliNotFound) << "there is no zz; the others are done";
  EXPECT_THAT(requests(), ElementsAre(HasSubstr("\"n01\""), HasSubstr("\"n02\""),
                                      HasSubstr("\"zz\""), HasSubstr("\"a\"")));
  EXPECT_EQ(Paceline({"node", "resume", "n[2-1]"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"node", "resume", "n[01-02]", "--request-id", "r"}).exit, kCliUsage);
  EXPECT_THAT(requests(), SizeIs(4));
}

TEST_F(NodesTest, DryRunTellsEachJobAndWaitsForNothing) {
  controller_.nodes().SetEffects(
      {Parsed<v1::DrainEffect>(R"(job: "job-1" ranks: 1 effect: "rank 1 moves to a spare on c")")});
  const Ran ran =
      Paceline({"node", "drain", "a", "--reason", "x", "--mode", "checkpoint", "--dry-run"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "a would be drained\n  job-1: rank 1 moves to a spare on c\n");
  EXPECT_THAT(ran.err, HasSubstr("nothing was done"));
  EXPECT_THAT(requests()[0], HasSubstr("mode: DRAIN_CHECKPOINT deadline_s: 3600 dry_run: true"));
}

TEST_F(NodesTest, DrainPrintsALinePerChangeUntilTheNodeIsDrained) {
  const std::string hold = R"( holds { drain: DRAIN_SWAP owner: "ann" })";
  controller_.nodes().AddWatch(
      {Changed(1, R"(name: "n01" state: NODE_READY)"),
       Changed(2, R"(name: "a" state: NODE_DRAINING reason: "drained" jobs: "job-1")" + hold),
       Changed(3, R"(name: "a" state: NODE_DRAINING reason: "drained" jobs: "job-1")" + hold),
       Changed(4, R"(name: "a" state: NODE_DRAINED reason: "drained")" + hold)});
  const Ran ran = Paceline({"node", "drain", "a", "--reason", "x"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "a is DRAINING: drained by ann: x\n"
            "a DRAINING: drained; still there: job-1\n"
            "a DRAINED: drained\n");
  EXPECT_THAT(requests()[0], HasSubstr("mode: DRAIN_SWAP"));
}

TEST_F(NodesTest, DrainThatSomebodyTakesAwayFails) {
  controller_.nodes().AddWatch({Changed(2, R"(name: "a" state: NODE_READY reason: "reports")")});
  const Ran ran = Paceline({"node", "drain", "a", "--reason", "x", "--no-deadline"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(requests()[0], HasSubstr("deadline_s: -1"));
}

TEST_F(NodesTest, DetachedDrainIsNotWatched) {
  const Ran ran = Paceline({"node", "drain", "n[01-02]", "--reason", "x", "--detach"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(requests(), SizeIs(2));
}

TEST_F(NodesTest, ReplacementThatHasNoSubstituteIsRefused) {
  controller_.nodes().FailNext(Refused("not every rank there can be replaced", "NO_SUBSTITUTE"));
  const Ran ran = Paceline({"node", "replace", "a", "--reason", "x"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("--dry-run"));
  EXPECT_THAT(requests()[0], HasSubstr("replace: true"));
}

TEST_F(NodesTest, LostAndResumeNameTheirStates) {
  EXPECT_EQ(Paceline({"node", "lost", "a", "--reason", "burnt"}).out,
            "a is LOST: declared lost by ann: burnt\n");
  EXPECT_EQ(Paceline({"node", "resume", "a"}).out, "a is READY: reports arrive\n");
}

TEST_F(NodesTest, HistoryIsATable) {
  controller_.nodes().SetHistory(Parsed<v1::NodeHistory>(
      R"(events { time { seconds: 5 } state: NODE_CORDONED who: "ann" what: "cordon: x" })"));
  EXPECT_THAT(Paceline({"node", "history", "a"}).out, HasSubstr("CORDONED  ann  cordon: x\n"));
  EXPECT_EQ(Paceline({"node", "history", "zz"}).exit, kCliNotFound);
}

TEST_F(NodesTest, CheckWaitsForItsResultAndABadOneIsTheExitCode) {
  controller_.nodes().AddWatch(
      {Changed(1, R"(name: "a" state: NODE_READY)"),
       Changed(2, R"(name: "a" state: NODE_READY check { id: 1 measurements {
                       name: "gemm" value: 70 unit: "GFLOP/s" own_median: 100 bad: true } })")});
  const Ran ran = Paceline({"node", "check", "a"});
  EXPECT_EQ(ran.exit, kCliFailed) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("70 GFLOP/s  100 GFLOP/s (-30 %)"));
}

TEST_F(NodesTest, AutomationIsPausedAndResumed) {
  EXPECT_THAT(Paceline({"automation", "status"}).out, HasSubstr("Automation: active\n"));
  EXPECT_THAT(Paceline({"automation", "pause", "--reason", "racks move"}).out,
              HasSubstr("By:         ann\nReason:     racks move\n"));
  EXPECT_THAT(Paceline({"automation", "resume"}).out, HasSubstr("Automation: active\n"));
  EXPECT_EQ(Paceline({"automation", "pause"}).exit, kCliUsage);
}

}  // namespace
}  // namespace paceline
