#include "controller/wire/convert_straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "controller/core/testing/played_job.h"
#include "controller/wire/convert.h"
#include "google/protobuf/util/message_differencer.h"

namespace paceline {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;

const absl::Time kWall = absl::FromUnixSeconds(1700000000);

Verdict SampleVerdict() {
  Verdict verdict;
  verdict.kind = VerdictKind::kPersistent;
  verdict.rank = 5;
  verdict.node = 3;
  verdict.peer_group = 1;
  verdict.step = 320;
  verdict.since_step = 200;
  verdict.slowdown = 1.52;
  verdict.slowdown_low = 1.5;
  verdict.slowdown_high = 1.54;
  verdict.cause = StragglerCause::kData;
  verdict.lost_share = 0.3;
  verdict.episodes = 2;
  return verdict;
}

LadderPlan SamplePlan() {
  LadderPlan plan;
  plan.reason = "stalls of different groups pass at the same time";
  plan.current = {{}, 0.2, 0.01, 1.0, 1.0};
  plan.synchronous = {{}, 0.21, 0.02, 1.0, 1.0};
  plan.candidates = {{{{2, LadderScope::kNode, 0}, {8, LadderScope::kAll, 0}}, 0.1, 0.01, 2.1, 4.2},
                     {{{4, LadderScope::kRack, 0}}, 0.15, 0.02, 1.4, 3}};
  plan.speedup_low = 1.9;
  plan.stalls.steps = 256;
  plan.stalls.typical_s = 0.08;
  plan.stalls.stall_share = 0.1;
  plan.stalls.mean_stall_s = 0.3;
  return plan;
}

StrategyAdvice SampleAdvice() {
  StrategyAdvice advice;
  advice.reason = "pause: 0.08 s a step";
  advice.current = SlipstreamChoice{SlipstreamMode::kFree, {1, 4, 16}};
  advice.choice = SlipstreamChoice{SlipstreamMode::kPause, {64, 64, 256}};
  advice.current_s = 0.1;
  advice.step_s = 0.08;
  advice.freezing_share = 0.5;
  StrategyPlan& plan = advice.plan;
  plan.why = StrategyWhy::kFreezing;
  plan.ddp.step_s = 0.2;
  plan.ideal_s = 0.07;
  plan.stalls = SamplePlan().stalls;
  plan.slipstreams = {{SlipstreamMode::kSync, {1, 64, 256}, 0.22, 0.31, 0, 1},
                      {SlipstreamMode::kDrop, {1, 64, 256}, 0.15, 0.46, 0, 0.9},
                      {SlipstreamMode::kFree, {1, 4, 16}, 0.1, 0.7, 3.5, 1},
                      {SlipstreamMode::kPause, {64, 64, 256}, 0.08, 0.87, 64, 1}};
  return advice;
}

// Every stored field has a different value.
RemedyDecision SampleDecision(RemedyKind kind) {
  RemedyDecision decision;
  decision.id = 12;
  decision.kind = kind;
  decision.state = DecisionState::kDidNotHelp;
  decision.made = kWall;
  decision.undoes = 11;
  decision.automatic = true;
  decision.by = "ann";
  decision.generation = Generation(2);
  decision.plan_version = PlanVersion(3);
  decision.step = 330;
  decision.rank = 5;
  decision.node = NodeName("n3");
  decision.before = {0.21, 0.002};
  decision.lost_s = 25;
  decision.options = {{RemedyKind::kHotSwap, 12, 0.1, 120}, {RemedyKind::kShrink, 10, 0.12, 130}};
  decision.reason = "it is cheaper than what is lost";
  decision.cost_s = 12.5;
  decision.predicted_s = 0.14;
  decision.paid_s = 13;
  decision.measured_s = 0.2;
  decision.without_s = 0.3;
  decision.done_generation = Generation(4);
  decision.done_plan_version = PlanVersion(5);
  decision.outcome = "steps are as long as before";
  decision.ended = kWall + absl::Minutes(2);
  if (kind == RemedyKind::kLadder) {
    decision.plan = SamplePlan();
    decision.ladder = {{2, LadderScope::kSize, 8}, {8, LadderScope::kAll, 0}};
    decision.former = {{4, LadderScope::kRack, 0}};
  } else if (kind == RemedyKind::kStrategy) {
    decision.strategy_advice = SampleAdvice();
    decision.strategy = SlipstreamChoice{SlipstreamMode::kPause, {64, 64, 256}};
    decision.former_strategy = SlipstreamChoice{SlipstreamMode::kFree, {1, 4, 16}};
  } else {
    decision.verdict = SampleVerdict();
  }
  return decision;
}

// Fields of the message that are not set.
std::string Unset(const google::protobuf::Message& message) {
  std::string names;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const auto* reflection = message.GetReflection();
    const bool is_set = field->is_repeated() ? reflection->FieldSize(message, field) > 0
                                             : reflection->HasField(message, field);
    if (!is_set) names += field->name() + " ";
  }
  return names;
}

TEST(ConvertStragglerTest, DecisionComesBackAsItWas) {
  const std::map<RemedyKind, std::string> unset = {
      {RemedyKind::kLadder, "verdict strategy former_strategy strategy_plan "},
      {RemedyKind::kHotSwap, "plan ladder former strategy former_strategy strategy_plan "},
      {RemedyKind::kStrategy, "verdict plan ladder former "}};
  for (const auto& [kind, names] : unset) {
    const v1::RemedyDecision stored = ToProto(SampleDecision(kind));
    EXPECT_EQ(Unset(stored), names);
    const RemedyDecision again = FromProto(stored);
    EXPECT_TRUE(MessageDifferencer::Equals(ToProto(again), stored)) << stored.DebugString();
    EXPECT_EQ(again.generation, Generation(2));
    EXPECT_EQ(again.done_plan_version, PlanVersion(5));
    EXPECT_EQ(again.ended, kWall + absl::Minutes(2));
    EXPECT_EQ(again.since, absl::InfinitePast()) << "of the steady clock, which is not stored";
  }
}

TEST(ConvertStragglerTest, LadderComesBackWithItsPlan) {
  const v1::RemedyDecision stored = ToProto(SampleDecision(RemedyKind::kLadder));
  EXPECT_EQ(stored.summary(), "undo of decision 11: ladder 2:8,8:all");
  EXPECT_EQ(Unset(stored.plan()), "");
  EXPECT_EQ(Unset(stored.plan().candidates(0)), "");
  const RemedyDecision again = FromProto(stored);
  const RemedyDecision decision = SampleDecision(RemedyKind::kLadder);
  EXPECT_EQ(again.ladder, decision.ladder);
  EXPECT_EQ(again.former, decision.former);
  ASSERT_TRUE(again.plan.has_value());
  EXPECT_EQ(again.plan->reason, decision.plan->reason);
  EXPECT_EQ(again.plan->candidates[1].ladder, decision.plan->candidates[1].ladder);
  EXPECT_EQ(again.plan->stalls.steps, 256);
}

TEST(ConvertStragglerTest, StrategyComesBackWithWhatItRestsOn) {
  const v1::RemedyDecision stored = ToProto(SampleDecision(RemedyKind::kStrategy));
  EXPECT_EQ(stored.summary(), "undo of decision 11: strategy slipstream pause");
  EXPECT_EQ(stored.strategy_plan().why(), "freezing");
  EXPECT_EQ(stored.strategy_plan().current().mode(), v1::SLIPSTREAM_FREE);
  EXPECT_EQ(stored.strategy_plan().chosen().window().min_steps(), 64);
  EXPECT_EQ(stored.strategy_plan().ddp().mode(), v1::SLIPSTREAM_UNSPECIFIED);
  const RemedyDecision again = FromProto(stored);
  EXPECT_EQ(again.strategy, SampleDecision(RemedyKind::kStrategy).strategy);
  EXPECT_EQ(again.former_strategy, SampleDecision(RemedyKind::kStrategy).former_strategy);
  ASSERT_TRUE(again.strategy_advice.has_value());
  EXPECT_DOUBLE_EQ(again.strategy_advice->plan.ideal_s, 0.07);
}

TEST(ConvertStragglerTest, VerdictComesBackWithoutTheNumberOfItsNode) {
  const v1::RemedyDecision stored = ToProto(SampleDecision(RemedyKind::kHotSwap));
  EXPECT_EQ(Unset(stored.verdict()), "time exchange ");
  EXPECT_EQ(stored.verdict().node(), "n3");
  EXPECT_EQ(stored.verdict().cause(), v1::CAUSE_DATA);
  const Verdict again = FromProto(stored).verdict;
  EXPECT_EQ(again.kind, VerdictKind::kPersistent);
  EXPECT_EQ(again.rank, 5);
  EXPECT_EQ(again.node, -1);
  EXPECT_EQ(again.since_step, 200);
  EXPECT_EQ(again.slowdown_high, 1.54);
}

TEST(ConvertStragglerTest, AdviceOfOuterStepsComesBackWhole) {
  RemedyDecision decision = SampleDecision(RemedyKind::kOuterStep);
  decision.undoes = 0;
  decision.ladder = {{50, LadderScope::kAll, 0, false}};
  const v1::RemedyDecision stored = ToProto(decision);
  EXPECT_EQ(stored.kind(), v1::REMEDY_OUTER_STEP);
  EXPECT_EQ(stored.summary(), "outer steps: 50:all");
  EXPECT_FALSE(stored.has_verdict()) << "no rank is to blame";
  EXPECT_EQ(FromProto(stored).kind, RemedyKind::kOuterStep);
  EXPECT_EQ(FromProto(stored).ladder, decision.ladder);
}

TEST(ConvertStragglerTest, NeverEndedStaysOpen) {
  RemedyDecision decision = SampleDecision(RemedyKind::kDrain);
  decision.ended = absl::InfinitePast();
  EXPECT_EQ(FromProto(ToProto(decision)).ended, absl::InfinitePast());
}

TEST(ConvertStragglerTest, WhatIsNotKnownIsNeutral) {
  v1::RemedyDecision stored;
  stored.set_kind(static_cast<v1::RemedyKind>(77));
  stored.set_state(static_cast<v1::DecisionState>(77));
  const RemedyDecision decision = FromProto(stored);
  EXPECT_EQ(decision.kind, RemedyKind::kAskPerson);
  EXPECT_EQ(decision.state, DecisionState::kWithdrawn);
}

TEST(ConvertStragglerTest, VerdictTellsAllThatIsShown) {
  ReportedVerdict reported{SampleVerdict(), NodeName("n3"), kWall};
  EXPECT_EQ(Unset(ToProto(reported)), "exchange ");
  reported.exchange = ExchangeGroup{2, 8, 4, 9, 0.93};
  const v1::StragglerVerdict verdict = ToProto(reported);
  EXPECT_EQ(Unset(verdict), "");
  EXPECT_EQ(verdict.kind(), v1::VERDICT_PERSISTENT);
  EXPECT_EQ(verdict.time().seconds(), 1700000000);
  EXPECT_EQ(Unset(verdict.exchange()), "");
  EXPECT_EQ(verdict.exchange().level(), 2);
  EXPECT_EQ(verdict.exchange().first_rank(), 8);
  EXPECT_EQ(verdict.exchange().ranks(), 4);
  EXPECT_EQ(verdict.exchange().waits_least(), 9);
  EXPECT_EQ(verdict.exchange().waits_least_share(), 0.93);
}

// Eight ranks, two on each of n0 to n3.
class JobAdviceTest : public ::testing::Test {
 protected:
  JobAdviceTest() {
    JobRequest request = PlayedRequest();
    request.ranks = kRanks;
    request.stragglers = StragglerMode::kAdvise;
    job_ = NewJob(std::move(request), 1, At(0));
    std::vector<Slot> slots;
    for (int r = 0; r < kRanks; ++r) slots.push_back({NodeOf(r), r % 2});
    PlaceJob(job_, slots, At(1));
    for (int r = 0; r < kRanks; ++r) {
      ApplyReport(job_, NodeOf(r), PlayedReport(job_, r, TrainerState::kRunning), At(2));
    }
    view_.job = &job_;
    view_.facts.generation = job_.generation;
    view_.facts.plan_version = job_.plan.version;
    view_.facts.running = true;
    view_.facts.ranks = kRanks;
    view_.facts.brake = "the automation is paused by ann";
    view_.facts.node = [](const NodeName&) { return RemedyNode(); };
    view_.hardware.assign(kRanks, "");
    view_.is_drained = [](const NodeName&) { return false; };
    stragglers_.Follow(view_, At(3));
  }

  static NodeName NodeOf(int rank) { return NodeName(absl::StrCat("n", rank / 2)); }

  // Lets all ranks do steps, one of them slowly.
  void Train(int64_t steps, int slow, double factor) {
    for (int64_t end = step_ + steps; step_ < end; ++step_) {
      for (int r = 0; r < kRanks; ++r) {
        StepTimes times;
        times.step = step_;
        const double noise = 1 + 0.001 * static_cast<double>((step_ * 7 + r * 5) % 11);
        times.forward_s = 0.03 * noise * (r == slow ? factor : 1);
        times.backward_s = 2 * times.forward_s;
        times.total_s = 0.1 * factor;
        times.communication_s = times.total_s - times.forward_s - times.backward_s;
        stragglers_.TakeSteps(NodeOf(r), PlayedReport(job_, r, TrainerState::kRunning).id,
                              {&times, 1}, view_, At(3 + 0.1 * static_cast<double>(step_)));
      }
    }
  }

  static constexpr int kRanks = 8;
  Job job_;
  JobView view_;
  JobStragglers stragglers_{StragglerOptions(), StragglerMode::kAdvise};
  int64_t step_ = 0;
};

TEST_F(JobAdviceTest, TellsOfSlowRanksAndOfTheBrake) {
  Train(200, 5, 1.0);
  EXPECT_EQ(ToProto(view_, &stragglers_).stragglers_size(), 0);
  Train(60, 5, 1.5);
  const v1::JobAdvice advice = ToProto(view_, &stragglers_);
  EXPECT_EQ(advice.job_id(), "job-1");
  EXPECT_EQ(advice.mode(), v1::STRAGGLER_MODE_ADVISE);
  EXPECT_EQ(advice.brake(), "the automation is paused by ann");
  ASSERT_EQ(advice.stragglers_size(), 1) << advice.DebugString();
  EXPECT_EQ(advice.stragglers(0).rank(), 5);
  EXPECT_EQ(advice.stragglers(0).node(), "n2");
  EXPECT_EQ(advice.stragglers(0).cause(), v1::CAUSE_COMPUTE);
  EXPECT_NEAR(advice.stragglers(0).slowdown(), 1.5, 0.02);
  EXPECT_EQ(advice.recent_size(), 1);
  EXPECT_EQ(advice.steps_seen(), 260);
  EXPECT_DOUBLE_EQ(advice.step_s(), 0.15);
  EXPECT_TRUE(advice.has_plan());
}

TEST_F(JobAdviceTest, TellsOfSlowExchangesAfterTheRanks) {
  job_.plan.ladder = {{2, LadderScope::kNode, 0}, {8, LadderScope::kAll, 0}};
  JobStragglers stragglers{StragglerOptions(), StragglerMode::kAdvise};
  stragglers.Follow(view_, At(3));
  for (int64_t step = 0; step < 280; ++step) {
    for (int r = 0; r < kRanks; ++r) {
      const double noise = 0.0001 * static_cast<double>((step * 7 + r * 5) % 11);
      StepTimes times;
      times.step = step;
      times.forward_s = times.backward_s = 0.03 + noise;
      times.averaging_ranks = step % 8 == 0 ? kRanks : (step % 2 == 0 ? 2 : 0);
      if (times.averaging_ranks > 0) times.averaging_s = 0.02 + noise;
      if (step >= 200 && times.averaging_ranks == 2 && r / 2 == 3) times.averaging_s *= 1.5;
      times.total_s = times.forward_s + times.backward_s + times.averaging_s;
      stragglers.TakeSteps(NodeOf(r), PlayedReport(job_, r, TrainerState::kRunning).id, {&times, 1},
                           view_, At(3 + 0.1 * static_cast<double>(step)));
    }
  }
  const v1::JobAdvice advice = ToProto(view_, &stragglers);
  ASSERT_EQ(advice.stragglers_size(), 1) << advice.DebugString();
  EXPECT_EQ(advice.stragglers(0).cause(), v1::CAUSE_COMMUNICATION);
  EXPECT_EQ(advice.stragglers(0).rank(), -1);
  EXPECT_EQ(advice.stragglers(0).node(), "");
  EXPECT_EQ(advice.stragglers(0).exchange().level(), 1);
  EXPECT_EQ(advice.stragglers(0).exchange().first_rank(), 6);
  EXPECT_EQ(advice.stragglers(0).exchange().ranks(), 2);
  EXPECT_NEAR(advice.stragglers(0).slowdown(), 1.5, 0.05);
  EXPECT_EQ(advice.recent_size(), 1);
  for (const v1::RemedyDecision& decision : advice.decisions()) {
    EXPECT_EQ(decision.kind(), v1::REMEDY_LADDER) << decision.reason();
  }
}

TEST_F(JobAdviceTest, WithoutStragglersTellsModeAndBrake) {
  const v1::JobAdvice advice = ToProto(view_, nullptr);
  EXPECT_EQ(advice.mode(), v1::STRAGGLER_MODE_ADVISE);
  EXPECT_EQ(advice.brake(), "the automation is paused by ann");
  EXPECT_FALSE(advice.has_plan());
}

TEST_F(JobAdviceTest, NamesRanksWithoutPeers) {
  view_.hardware.assign(kRanks, "A100");
  view_.hardware[6] = "H100";
  JobStragglers stragglers{StragglerOptions(), StragglerMode::kAdvise};
  stragglers.Follow(view_, At(3));
  EXPECT_THAT(ToProto(view_, &stragglers).unjudged_ranks(), ElementsAre(6));
}

}  // namespace
}  // namespace paceline
