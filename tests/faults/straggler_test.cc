// Slow nodes with jobs that train, from the first slow step to the proof that a remedy has helped.
// Daemons and trainers are real; their steps are mostly sleep.
//
// A rank counts as slow for good after 120 slow steps and ten seconds: each test takes 10 to 30 s.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kStepS = 0.03;     // Sleep of all ranks in each step.
constexpr double kSlowerS = 0.055;  // More sleep on the slow node.
constexpr int64_t kSlowFrom = 60;   // First step of that.
constexpr int64_t kEndless = 100000;
constexpr int kRanks = 4;  // A rank needs three others to be compared with.
constexpr int kSlowRank = 2;
constexpr char kSlowNode[] = "w2";
// On a busy machine a slower group may delay remedies by a minute (RemedyOptions::doubt).
constexpr absl::Duration kPatience = absl::Minutes(3);

// By rank.
std::vector<int64_t> Pids(const v1::Job& job) {
  std::vector<int64_t> pids;
  for (const v1::Rank& rank : job.ranks()) pids.push_back(rank.pid());
  return pids;
}

bool IsOn(const v1::Job& job, const std::string& node) {
  return std::any_of(job.ranks().begin(), job.ranks().end(),
                     [&](const v1::Rank& rank) { return rank.node() == node; });
}

class StragglerTest : public RecoveringJobTest {
 protected:
  using Holds = std::function<bool(const v1::RemedyDecision&)>;

  v1::JobSpec SlowJob(v1::StragglerMode mode, int64_t steps = kEndless, int ranks = kRanks,
                      const std::string& slow_node = kSlowNode) const {
    v1::JobSpec spec = Spec(steps);
    spec.set_ranks(ranks);
    spec.mutable_stragglers()->set_mode(mode);
    spec.clear_chaos();
    v1::Fault& all = *spec.add_chaos();
    all = cluster_->Sleep(kStepS, 0, steps);
    all.set_rank(-1);
    v1::Fault& slower = *spec.add_chaos();
    slower = cluster_->Sleep(kSlowerS, kSlowFrom, steps);
    slower.set_rank(-1);
    slower.set_node(slow_node);
    return spec;
  }

  v1::JobAdvice Advise() const {
    grpc::ClientContext context;
    v1::AdviseRequest request;
    request.set_job(id_);
    v1::JobAdvice advice;
    const grpc::Status status =
        v1::JobService::NewStub(cluster_->channel())->Advise(&context, request, &advice);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return advice;
  }

  std::vector<v1::RemedyDecision> Decisions() const {
    grpc::ClientContext context;
    v1::ListDecisionsRequest request;
    request.set_job(id_);
    v1::ListDecisionsResponse response;
    const grpc::Status status =
        v1::JobService::NewStub(cluster_->channel())->ListDecisions(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {response.decisions().begin(), response.decisions().end()};
  }

  v1::RemedyDecision WaitForDecision(v1::RemedyKind kind, const Holds& holds) const {
    v1::RemedyDecision found;
    const bool in_time = Eventually(
        [&] {
          for (const v1::RemedyDecision& decision : Decisions()) {
            if (decision.kind() != kind || !holds(decision)) continue;
            found = decision;
            return true;
          }
          return false;
        },
        kPatience);
    EXPECT_TRUE(in_time) << Paceline({"job", "decisions", id_}).output
                         << Paceline({"job", "advise", id_}).output
                         << Paceline({"job", "describe", id_}).output;
    return found;
  }
  v1::RemedyDecision WaitForDecision(v1::RemedyKind kind, v1::DecisionState state) const {
    return WaitForDecision(kind, [=](const auto& decision) { return decision.state() == state; });
  }
  v1::RemedyDecision WaitUntilDone(v1::RemedyKind kind) const {
    return WaitForDecision(kind,
                           [](const auto& decision) { return decision.done_generation() > 0; });
  }

  // Number of decisions that were ordered.
  int CountOrders() const {
    const std::vector<v1::RemedyDecision> decisions = Decisions();
    return static_cast<int>(std::count_if(decisions.begin(), decisions.end(), [](const auto& d) {
      return d.state() != v1::DECISION_ADVISED && d.state() != v1::DECISION_WITHDRAWN;
    }));
  }

  // Expects that the job makes `steps` more steps without any change.
  void ExpectNothingIsDoneFor(int64_t steps) const {
    const v1::Job before = cluster_->Get(id_);
    const v1::Job after = cluster_->WaitForSteps(id_, Step(before) + steps);
    EXPECT_EQ(after.generation(), before.generation());
    EXPECT_EQ(Pids(after), Pids(before));
    EXPECT_EQ(CountOrders(), 0);
  }

  v1::NodeState StateOf(const std::string& name) const {
    grpc::ClientContext context;
    v1::ListNodesResponse nodes;
    v1::NodeService::NewStub(cluster_->channel())->List(&context, v1::ListNodesRequest(), &nodes);
    for (const v1::Node& node : nodes.nodes()) {
      if (node.name() == name) return node.state();
    }
    return v1::NODE_STATE_UNSPECIFIED;
  }
};

TEST_F(StragglerTest, AutoSwapsASlowRankForTheSpareAndNoStepIsLost) {
  StartCluster(5);
  v1::JobSpec spec = SlowJob(v1::STRAGGLER_MODE_AUTO, 500);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  ASSERT_EQ(before.ranks(kSlowRank).node(), kSlowNode);
  const v1::RemedyDecision swap = WaitForDecision(v1::REMEDY_HOT_SWAP, v1::DECISION_HELPED);
  EXPECT_TRUE(swap.automatic());
  EXPECT_EQ(swap.rank(), kSlowRank);
  EXPECT_EQ(swap.node(), kSlowNode);
  EXPECT_EQ(swap.verdict().kind(), v1::VERDICT_PERSISTENT);
  // A busy machine may have slowed it down before.
  EXPECT_NEAR(static_cast<double>(swap.verdict().since_step()), kSlowFrom, kSlowFrom / 2.0);
  EXPECT_GT(swap.before_s(), kStepS + kSlowerS);
  EXPECT_LT(swap.measured_s(), swap.before_s());  // The size of the gain depends on the machine.

  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.generation(), before.generation() + 1);
  EXPECT_EQ(swap.done_generation(), after.generation());
  std::vector<int64_t> pids = Pids(before);
  pids[kSlowRank] = before.spares(0).pid();
  EXPECT_EQ(Pids(after), pids);
  ASSERT_EQ(after.membership_changes_size(), 1);
  EXPECT_TRUE(after.membership_changes(0).planned());
  EXPECT_THAT(TrainersOn(kSlowNode), IsEmpty());
  EXPECT_EQ(CountOrders(), 1);
  EXPECT_THAT(Paceline({"job", "decisions", id_}).output,
              HasSubstr("hot-swap of rank 2 on w2  helped"));
  ExpectUndisturbedEnd();
}

TEST_F(StragglerTest, AdviseLeavesItToAPersonWhomNoPauseHoldsUp) {
  StartCluster(5);
  v1::JobSpec spec = SlowJob(v1::STRAGGLER_MODE_ADVISE);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  ASSERT_EQ(before.ranks(kSlowRank).node(), kSlowNode);
  const v1::RemedyDecision advice = WaitForDecision(v1::REMEDY_HOT_SWAP, v1::DECISION_ADVISED);
  EXPECT_EQ(advice.rank(), kSlowRank);
  EXPECT_EQ(advice.node(), kSlowNode);
  const std::string number = std::to_string(advice.id());
  EXPECT_THAT(Paceline({"job", "advise", id_}).output,
              HasSubstr("paceline job apply " + id_ + " " + number));
  ExpectNothingIsDoneFor(20);

  const Finished paused =
      Paceline({"automation", "pause", "--owner", "bob", "--reason", "an upgrade"});
  EXPECT_EQ(paused.exit_code, 0) << paused.output;
  const std::vector<std::string> apply = {"job", "apply", id_, number, "--owner", "ann"};
  const Finished applied = Paceline(apply);
  EXPECT_EQ(applied.exit_code, 0) << applied.output;
  EXPECT_THAT(applied.output,
              HasSubstr("advice " + number + " is ordered by ann: hot-swap of rank 2 on w2"));
  const Finished again = Paceline(apply);
  EXPECT_EQ(again.exit_code, 4) << again.output;  // kCliRefused
  EXPECT_THAT(again.output, AnyOf(HasSubstr("advice " + number + " is ORDERED"),
                                  HasSubstr("advice " + number + " is CHECKING")));

  const v1::RemedyDecision swap = WaitUntilDone(v1::REMEDY_HOT_SWAP);
  EXPECT_EQ(swap.id(), advice.id());
  EXPECT_EQ(swap.by(), "ann");
  EXPECT_FALSE(swap.automatic());
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.generation(), before.generation() + 1);
  EXPECT_EQ(after.ranks(kSlowRank).pid(), before.spares(0).pid());
  EXPECT_EQ(CountOrders(), 1);
}

TEST_F(StragglerTest, ASpareThatDiesInTheSwapIsFollowedByAnother) {
  StartCluster(5);
  v1::JobSpec spec = SlowJob(v1::STRAGGLER_MODE_AUTO);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  ASSERT_EQ(before.ranks(kSlowRank).node(), kSlowNode);
  ASSERT_TRUE(Eventually([&] { return !Advise().stragglers().empty(); }, kPatience));
  // The spare is stopped first, so it cannot take over before it dies.
  Signal(before.spares(0), SIGSTOP);
  const v1::RemedyDecision ordered = WaitForDecision(v1::REMEDY_HOT_SWAP, v1::DECISION_ORDERED);
  Signal(before.spares(0), SIGKILL);

  const v1::RemedyDecision swap = WaitUntilDone(v1::REMEDY_HOT_SWAP);
  EXPECT_EQ(swap.id(), ordered.id());
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.state(), v1::RUNNING);
  EXPECT_FALSE(IsOn(after, kSlowNode));
  std::vector<int64_t> pids = Pids(before);
  pids[kSlowRank] = after.ranks(kSlowRank).pid();
  EXPECT_EQ(Pids(after), pids) << "the others keep their processes";
  EXPECT_NE(pids[kSlowRank], before.ranks(kSlowRank).pid());
  EXPECT_NE(pids[kSlowRank], before.spares(0).pid());
  EXPECT_EQ(after.restarts(), 0);
  // At most three: to the spare, back from it, and to the next one.
  EXPECT_LE(after.membership_changes_size(), 3) << after.DebugString();
  EXPECT_EQ(CountOrders(), 1);
}

TEST_F(StragglerTest, OffLooksAtNothing) {
  StartCluster(kRanks);
  const v1::Job before = Start(SlowJob(v1::STRAGGLER_MODE_OFF));
  ASSERT_EQ(before.ranks(kSlowRank).node(), kSlowNode);
  cluster_->WaitForSteps(id_, kSlowFrom + 30);
  const v1::JobAdvice advice = Advise();
  EXPECT_EQ(advice.mode(), v1::STRAGGLER_MODE_OFF);
  EXPECT_EQ(advice.steps_seen(), 0);
  EXPECT_THAT(advice.stragglers(), IsEmpty());
  EXPECT_THAT(advice.recent(), IsEmpty());
  EXPECT_THAT(Decisions(), IsEmpty());
}

TEST_F(StragglerTest, WithoutASpareTheJobShrinksAndStaysAwayFromTheNode) {
  StartCluster(kRanks);
  v1::JobSpec spec = SlowJob(v1::STRAGGLER_MODE_AUTO);
  spec.mutable_recovery()->set_min_ranks(kRanks - 1);
  spec.mutable_recovery()->set_batch(v1::KEEP_RANK_BATCH);
  const v1::Job before = Start(spec);
  ASSERT_EQ(before.ranks(kSlowRank).node(), kSlowNode);
  const v1::RemedyDecision shrink = WaitForDecision(v1::REMEDY_SHRINK, v1::DECISION_HELPED);
  EXPECT_TRUE(shrink.automatic());
  EXPECT_EQ(shrink.rank(), kSlowRank);
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.state(), v1::RUNNING);
  EXPECT_EQ(after.generation(), before.generation() + 1);
  std::vector<int64_t> pids = Pids(before);
  pids.erase(pids.begin() + kSlowRank);
  EXPECT_EQ(Pids(after), pids);
  EXPECT_THAT(after.spares(), IsEmpty());
  EXPECT_THAT(TrainersOn(kSlowNode), IsEmpty());
  EXPECT_EQ(CountOrders(), 1);
}

TEST_F(StragglerTest, ASlowNodeIsDrainedOnceTheAutomationMay) {
  constexpr int kManyRanks = 8;
  cluster_ = std::make_unique<TestCluster>(/*workers=*/5, /*slots=*/2);
  const Finished paused =
      Paceline({"automation", "pause", "--owner", "ann", "--reason", "an upgrade"});
  ASSERT_EQ(paused.exit_code, 0) << paused.output;
  v1::JobSpec spec = SlowJob(v1::STRAGGLER_MODE_AUTO, kEndless, kManyRanks, "w1");
  spec.mutable_recovery()->set_spares(2);
  const v1::Job before = Start(spec, 2);
  for (int rank = 0; rank < kManyRanks; ++rank) {
    ASSERT_EQ(before.ranks(rank).node() == "w1", rank == 2 || rank == 3) << before.DebugString();
  }
  const v1::RemedyDecision advice = WaitForDecision(v1::REMEDY_DRAIN, v1::DECISION_ADVISED);
  EXPECT_EQ(advice.node(), "w1");
  EXPECT_EQ(advice.verdict().kind(), v1::VERDICT_NODE);
  EXPECT_THAT(Advise().brake(), HasSubstr("paused by ann: an upgrade"));
  ExpectNothingIsDoneFor(20);

  EXPECT_EQ(Paceline({"automation", "resume", "--owner", "ann"}).exit_code, 0);
  const v1::RemedyDecision drain = WaitUntilDone(v1::REMEDY_DRAIN);
  EXPECT_EQ(drain.id(), advice.id());
  EXPECT_TRUE(drain.automatic());
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.generation(), before.generation() + 1);
  EXPECT_FALSE(IsOn(after, "w1"));
  for (int rank = 0; rank < kManyRanks; ++rank) {
    const bool has_moved = before.ranks(rank).node() == "w1";
    EXPECT_EQ(after.ranks(rank).pid() != before.ranks(rank).pid(), has_moved) << "rank " << rank;
  }
  EXPECT_TRUE(Eventually([&] { return StateOf("w1") == v1::NODE_DRAINED; }));
  EXPECT_THAT(TrainersOn("w1"), IsEmpty());
  EXPECT_EQ(Paceline({"node", "resume", "w1", "--owner", "ann"}).exit_code, 0);
}

}  // namespace
}  // namespace paceline
