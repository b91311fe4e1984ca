#include "controller/loop/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "controller/core/history/transition_finder.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The lines without their reasons.
std::vector<std::string> Heads(const std::vector<ChangeLine>& lines) {
  std::vector<std::string> heads;
  for (const ChangeLine& line : lines) {
    heads.push_back(line.text.substr(0, line.text.find(" reason=")));
  }
  return heads;
}

// A cluster of three nodes with one slot each.
class ChangeLogTest : public ::testing::Test {
 protected:
  ChangeLogTest() {
    for (const char* name : {"a", "b", "c"}) {
      NodeFacts facts;
      facts.name = NodeName(name);
      facts.uid = name;
      facts.slots = 1;
      Step(NodeConnected{facts, {}}, 0);
    }
  }

  void Step(const Event& event, double at) {
    const Actions actions = cluster_.Step(event, At(at));
    const std::vector<ChangeLine> lines =
        ChangeLines(cluster_, finder_.Look(cluster_, stragglers_, actions, {}), actions);
    lines_.insert(lines_.end(), lines.begin(), lines.end());
  }
  // Returns the lines since the last call.
  std::vector<ChangeLine> Lines() { return std::exchange(lines_, {}); }

  const Job& job() const { return cluster_.jobs().at(JobId("job-1")); }
  // Report of a member that trains in the present generation.
  static TrainerReport Training(const Job& job, const RankState& member) {
    TrainerReport report = member.report;
    report.state = TrainerState::kRunning;
    report.pid = 100 * report.id.generation.value() + report.id.rank.value() + 1;
    report.store_address = "x:1";
    report.progress.step = 10;
    report.membership = {};
    report.membership.generation = job.generation;
    report.membership.step = 10;
    return report;
  }
  void TrainAll(double at) {
    const std::vector<RankState> members = job().ranks;
    for (const RankState& member : members) {
      Step(NodeReported{member.slot.node, {Training(job(), member)}}, at);
    }
  }
  void End(const RankState& member, FailureKind failure, const std::string& message, double at) {
    TrainerReport report = Training(job(), member);
    report.state = TrainerState::kExited;
    report.exit = TrainerExit();
    report.exit->failure = failure;
    report.exit->message = message;
    Step(NodeReported{member.slot.node, {report}}, at);
  }

  Cluster cluster_{Cluster::Options()};
  Stragglers stragglers_{
      {},
      [](const std::string& strategy, const Ladder&) { return strategy; },
      [](const std::string& asked, const std::optional<SlipstreamChoice>&) { return asked; }};
  TransitionFinder finder_;
  std::vector<ChangeLine> lines_;
};

TEST_F(ChangeLogTest, AJobsStatesAndGenerationsAreToldOnce) {
  Lines();
  Step(JobSubmitted{MemberRequest(2)}, 1);
  TrainAll(2);
  TrainAll(3);
  EXPECT_THAT(Heads(Lines()),
              ElementsAre("job_state job=job-1 state=STARTING",
                          "job_generation job=job-1 generation=1 cause=start ranks=2",
                          "job_state job=job-1 state=RUNNING"));
  const RankState killed = job().ranks[1];
  End(killed, FailureKind::kSignal, "killed by SIGKILL", 4);
  const std::vector<ChangeLine> lost = Lines();
  EXPECT_THAT(Heads(lost),
              ElementsAre("job_state job=job-1 state=RECOVERING",
                          "job_generation job=job-1 generation=2 cause=failure ranks=2"));
  EXPECT_THAT(lost.back().text, HasSubstr(" reason=\"rank 1 on "));
  EXPECT_THAT(lost.back().text, HasSubstr("killed by SIGKILL"));
  TrainAll(5);
  const std::vector<RankState> members = job().ranks;
  for (const RankState& member : members) End(member, FailureKind::kNone, "", 6);
  EXPECT_THAT(Heads(Lines()), ElementsAre("job_state job=job-1 state=RUNNING",
                                          "job_state job=job-1 state=SUCCEEDED"));
}

TEST_F(ChangeLogTest, NodesAreToldWhenTheirStateIsAnother) {
  EXPECT_THAT(Heads(Lines()),
              ElementsAre("node_state node=a state=READY", "node_state node=b state=READY",
                          "node_state node=c state=READY"));
  Hold hold;
  hold.owner = "ann";
  hold.reason = "its fan is loud";
  Step(HoldRequested{NodeName("a"), hold}, 1);
  Step(NodeReported{NodeName("a"), {}}, 2);
  const std::vector<ChangeLine> lines = Lines();
  EXPECT_THAT(Heads(lines), ElementsAre("node_state node=a state=CORDONED"));
  EXPECT_THAT(lines[0].text, HasSubstr("its fan is loud"));
}

TEST_F(ChangeLogTest, TheAutomationsPausesAreTold) {
  Lines();
  Step(AutomationPauseRequested{"ann", "racks move"}, 1);
  Step(AutomationPauseRequested{"bob", "me too"}, 2);
  Step(AutomationResumeRequested{"ann"}, 3);
  const std::vector<ChangeLine> lines = Lines();
  EXPECT_THAT(Heads(lines), ElementsAre("automation_state paused=true owner=ann",
                                        "automation_state paused=false"));
  EXPECT_THAT(lines[0].text, HasSubstr("racks move"));
}

// A job with a slow rank for which the automation acts.
class DecisionLogTest : public ::testing::Test {
 protected:
  std::vector<ChangeLine> Look(TransitionFinder& finder) const {
    Actions actions;
    actions.show_jobs.insert(watched_.id);
    StragglerActions decided;
    for (const RemedyDecision& decision : Decisions()) {
      decided.store.emplace(watched_.id, decision.id);
    }
    return ChangeLines(*watched_.cluster,
                       finder.Look(*watched_.cluster, *watched_.stragglers, actions, decided),
                       actions);
  }
  std::vector<RemedyDecision> Decisions() const {
    const JobStragglers* known = watched_.stragglers->Find(watched_.id);
    if (known == nullptr) return {};
    const auto& decisions = known->policy().decisions();
    return {decisions.begin(), decisions.end()};
  }

  WatchedJob watched_{WatchedRequest(StragglerMode::kAuto)};
};

TEST_F(DecisionLogTest, StatesOfDecisionsAndPlannedGenerationsAreToldOnce) {
  TransitionFinder finder;
  std::vector<std::string> reported;
  for (int i = 0; i < 120; ++i) {
    watched_.Train(10, SlowFrom("n03", 200));
    for (const std::string& head : Heads(Look(finder))) {
      if (!absl::StartsWith(head, "job_state ")) reported.push_back(head);
    }
  }
  EXPECT_THAT(reported, Contains("job_generation job=job-1 generation=2 cause=planned ranks=8"));
  EXPECT_THAT(reported, Contains(AllOf(StartsWith("decision job=job-1 id="),
                                       HasSubstr(" what=\"hot-swap of rank "))));
  int helped = 0;
  for (const std::string& head : reported) helped += absl::EndsWith(head, " state=HELPED") ? 1 : 0;
  EXPECT_EQ(helped, 1);
  EXPECT_EQ(std::set<std::string>(reported.begin(), reported.end()).size(), reported.size());
}

TEST_F(DecisionLogTest, AfterARestartNothingIsToldAgain) {
  watched_.Train(1200, SlowFrom("n03", 200));
  ASSERT_FALSE(Decisions().empty());
  TransitionFinder finder;
  finder.Restore(*watched_.cluster, {{watched_.id, Decisions()}});
  EXPECT_THAT(Heads(Look(finder)), IsEmpty());
}

}  // namespace
}  // namespace paceline
