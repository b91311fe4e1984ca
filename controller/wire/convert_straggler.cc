#include "controller/wire/convert_straggler.h"

#include <string>

#include "controller/wire/convert.h"
#include "controller/wire/convert_plan.h"

namespace paceline {
namespace {

using paceline::FromProto;
using paceline::ToProto;

// Core's values have the wire's numbers without UNSPECIFIED.
static_assert(static_cast<int>(VerdictKind::kGroup) + 1 == v1::VERDICT_GROUP);
static_assert(static_cast<int>(StragglerCause::kImbalance) + 1 == v1::CAUSE_IMBALANCE);
static_assert(static_cast<int>(RemedyKind::kOuterStep) + 1 == v1::REMEDY_OUTER_STEP);
static_assert(static_cast<int>(StrategyWhy::kDear) == 4);
static_assert(static_cast<int>(DecisionState::kWithdrawn) + 1 == v1::DECISION_WITHDRAWN);

template <typename Wire, typename Core>
Wire ToWire(Core value) {
  return static_cast<Wire>(static_cast<int>(value) + 1);
}

// Returns `other` for an unknown value. `last`: core's greatest value.
template <typename Core, typename Wire>
Core ToCore(Wire value, Core last, Core other) {
  const int number = static_cast<int>(value) - 1;
  return number >= 0 && number <= static_cast<int>(last) ? static_cast<Core>(number) : other;
}

v1::StragglerMode ToProto(StragglerMode mode) {
  switch (mode) {
    case StragglerMode::kOff:
      return v1::STRAGGLER_MODE_OFF;
    case StragglerMode::kAdvise:
      return v1::STRAGGLER_MODE_ADVISE;
    case StragglerMode::kAuto:
      return v1::STRAGGLER_MODE_AUTO;
  }
  return v1::STRAGGLER_MODE_UNSPECIFIED;
}

// Leaves the time unset.
v1::StragglerVerdict ToProto(const Verdict& verdict, const NodeName& node) {
  v1::StragglerVerdict out;
  out.set_kind(ToWire<v1::VerdictKind>(verdict.kind));
  out.set_rank(verdict.rank);
  out.set_node(node.value());
  out.set_peer_group(verdict.peer_group);
  out.set_step(verdict.step);
  out.set_since_step(verdict.since_step);
  out.set_slowdown(verdict.slowdown);
  out.set_slowdown_low(verdict.slowdown_low);
  out.set_slowdown_high(verdict.slowdown_high);
  out.set_cause(ToWire<v1::StragglerCause>(verdict.cause));
  out.set_lost_share(verdict.lost_share);
  out.set_episodes(verdict.episodes);
  return out;
}

Verdict FromProto(const v1::StragglerVerdict& verdict) {
  Verdict out;
  out.kind = ToCore(verdict.kind(), VerdictKind::kGroup, VerdictKind::kGroup);
  out.rank = verdict.rank();
  out.peer_group = verdict.peer_group();
  out.step = verdict.step();
  out.since_step = verdict.since_step();
  out.slowdown = verdict.slowdown();
  out.slowdown_low = verdict.slowdown_low();
  out.slowdown_high = verdict.slowdown_high();
  out.cause = ToCore(verdict.cause(), StragglerCause::kImbalance, StragglerCause::kCompute);
  out.lost_share = verdict.lost_share();
  out.episodes = verdict.episodes();
  return out;
}

v1::LadderPrediction ToProto(const LadderPrediction& prediction) {
  v1::LadderPrediction out;
  *out.mutable_ladder() = ToProto(prediction.ladder);
  out.set_step_s(prediction.step_s);
  out.set_communication_s(prediction.communication_s);
  out.set_speedup(prediction.speedup);
  out.set_equivalent_period(prediction.equivalent_period);
  return out;
}

LadderPrediction FromProto(const v1::LadderPrediction& prediction) {
  return {FromProto(prediction.ladder()), prediction.step_s(), prediction.communication_s(),
          prediction.speedup(), prediction.equivalent_period()};
}

LadderPlan FromProto(const v1::LadderPlan& plan) {
  LadderPlan out;
  out.reason = plan.reason();
  out.current = FromProto(plan.current());
  out.synchronous = FromProto(plan.synchronous());
  for (const v1::LadderPrediction& candidate : plan.candidates()) {
    out.candidates.push_back(FromProto(candidate));
  }
  out.speedup_low = plan.speedup_low();
  out.stalls.steps = plan.steps();
  out.stalls.typical_s = plan.typical_s();
  out.stalls.stall_share = plan.stall_share();
  out.stalls.mean_stall_s = plan.mean_stall_s();
  return out;
}

// A prediction for ddp, which has no mode.
v1::StrategyPrediction DdpOf(double step_s, double ideal_s) {
  v1::StrategyPrediction out;
  out.set_step_s(step_s);
  if (step_s > 0) out.set_share(ideal_s / step_s);
  out.set_used(1);
  return out;
}

v1::StrategyPrediction ToProto(const SlipstreamPrediction& prediction) {
  v1::StrategyPrediction out;
  const v1::Slipstream slipstream = ToProto(SlipstreamChoice{prediction.mode, prediction.bounds});
  out.set_mode(slipstream.mode());
  *out.mutable_window() = slipstream.window();
  out.set_step_s(prediction.step_s);
  out.set_share(prediction.share);
  out.set_window_steps(prediction.window_steps);
  out.set_used(prediction.used);
  return out;
}

SlipstreamPrediction FromProto(const v1::StrategyPrediction& prediction) {
  v1::Slipstream slipstream;
  slipstream.set_mode(prediction.mode());
  *slipstream.mutable_window() = prediction.window();
  const SlipstreamChoice choice = FromProto(slipstream);
  return {choice.mode,
          choice.window,
          prediction.step_s(),
          prediction.share(),
          prediction.window_steps(),
          prediction.used()};
}

v1::Strategy ToProto(const std::optional<SlipstreamChoice>& choice) {
  v1::Strategy out;
  if (choice.has_value()) {
    *out.mutable_slipstream() = ToProto(*choice);
  } else {
    out.mutable_ddp();
  }
  return out;
}

// Returns the prediction for a chosen strategy.
v1::StrategyPrediction Find(const StrategyPlan& plan, const std::optional<SlipstreamChoice>& choice,
                            double step_s) {
  for (const SlipstreamPrediction& one : plan.slipstreams) {
    if (choice.has_value() && one.mode == choice->mode) return ToProto(one);
  }
  return DdpOf(step_s, plan.ideal_s);
}

// Decodes what is shown of it.
StrategyAdvice FromProto(const v1::StrategyPlan& plan) {
  StrategyAdvice out;
  out.reason = plan.reason();
  out.current_s = plan.current().step_s();
  out.step_s = plan.chosen().step_s();
  if (plan.current().mode() != v1::SLIPSTREAM_UNSPECIFIED) {
    const SlipstreamPrediction current = FromProto(plan.current());
    out.current = SlipstreamChoice{current.mode, current.bounds};
  }
  if (plan.chosen().mode() != v1::SLIPSTREAM_UNSPECIFIED) {
    const SlipstreamPrediction chosen = FromProto(plan.chosen());
    out.choice = SlipstreamChoice{chosen.mode, chosen.bounds};
  }
  for (int why = 0; why <= static_cast<int>(StrategyWhy::kDear); ++why) {
    if (plan.why() == StrategyWhyName(static_cast<StrategyWhy>(why))) {
      out.plan.why = static_cast<StrategyWhy>(why);
    }
  }
  out.plan.ddp.step_s = plan.ddp().step_s();
  out.plan.ideal_s = plan.ddp().share() * plan.ddp().step_s();
  for (const v1::StrategyPrediction& one : plan.slipstream()) {
    out.plan.slipstreams.push_back(FromProto(one));
  }
  out.plan.stalls.steps = plan.steps();
  out.plan.stalls.typical_s = plan.typical_s();
  out.plan.stalls.stall_share = plan.stall_share();
  out.plan.stalls.mean_stall_s = plan.mean_stall_s();
  out.freezing_share = plan.freezing_share();
  return out;
}

void SetBasis(const RemedyDecision& decision, v1::RemedyDecision* out) {
  out->set_generation(decision.generation.value());
  out->set_plan_version(decision.plan_version.value());
  out->set_step(decision.step);
  out->set_rank(decision.rank);
  out->set_node(decision.node.value());
  if (!IsOfPlan(decision.kind)) {
    *out->mutable_verdict() = ToProto(decision.verdict, decision.node);
  }
  out->set_before_s(decision.before.seconds);
  out->set_before_error_s(decision.before.error);
  if (decision.plan.has_value()) *out->mutable_plan() = ToProto(*decision.plan);
  if (decision.strategy_advice.has_value()) {
    *out->mutable_strategy_plan() = ToProto(*decision.strategy_advice);
  }
  out->set_lost_s(decision.lost_s);
  for (const RemedyOption& option : decision.options) {
    v1::RemedyOption& added = *out->add_options();
    added.set_kind(ToWire<v1::RemedyKind>(option.kind));
    added.set_cost_s(option.cost_s);
    added.set_step_s(option.step_s);
    added.set_total_s(option.total_s);
  }
  out->set_reason(decision.reason);
}

void SetOutcome(const RemedyDecision& decision, v1::RemedyDecision* out) {
  out->set_paid_s(decision.paid_s);
  out->set_measured_s(decision.measured_s);
  out->set_without_s(decision.without_s);
  out->set_done_generation(decision.done_generation.value());
  out->set_done_plan_version(decision.done_plan_version.value());
  out->set_outcome(decision.outcome);
  if (decision.ended != absl::InfinitePast()) *out->mutable_end_time() = ToProto(decision.ended);
}

RemedyKind FromProto(v1::RemedyKind kind) {
  return ToCore(kind, RemedyKind::kOuterStep, RemedyKind::kAskPerson);
}

}  // namespace

v1::StragglerVerdict ToProto(const ReportedVerdict& reported) {
  v1::StragglerVerdict out = ToProto(reported.verdict, reported.node);
  *out.mutable_time() = ToProto(reported.time);
  if (reported.exchange.has_value()) {
    v1::ExchangeGroup& exchange = *out.mutable_exchange();
    exchange.set_level(reported.exchange->level);
    exchange.set_first_rank(reported.exchange->first_rank);
    exchange.set_ranks(reported.exchange->ranks);
    exchange.set_waits_least(reported.exchange->waits_least);
    exchange.set_waits_least_share(reported.exchange->waits_least_share);
  }
  return out;
}

v1::LadderPlan ToProto(const LadderPlan& plan) {
  v1::LadderPlan out;
  out.set_reason(plan.reason);
  *out.mutable_current() = ToProto(plan.current);
  *out.mutable_synchronous() = ToProto(plan.synchronous);
  for (const LadderPrediction& candidate : plan.candidates) {
    *out.add_candidates() = ToProto(candidate);
  }
  out.set_speedup_low(plan.speedup_low);
  out.set_steps(plan.stalls.steps);
  out.set_typical_s(plan.stalls.typical_s);
  out.set_stall_share(plan.stalls.stall_share);
  out.set_mean_stall_s(plan.stalls.mean_stall_s);
  return out;
}

v1::StrategyPlan ToProto(const StrategyAdvice& advice) {
  const StrategyPlan& plan = advice.plan;
  v1::StrategyPlan out;
  out.set_reason(advice.reason);
  out.set_why(StrategyWhyName(plan.why));
  out.set_steps(plan.stalls.steps);
  out.set_typical_s(plan.stalls.typical_s);
  out.set_stall_share(plan.stalls.stall_share);
  out.set_mean_stall_s(plan.stalls.mean_stall_s);
  out.set_freezing_share(advice.freezing_share);
  if (plan.why == StrategyWhy::kUnmeasured) return out;
  *out.mutable_current() = Find(plan, advice.current, advice.current_s);
  *out.mutable_chosen() = Find(plan, advice.choice, advice.step_s);
  *out.mutable_ddp() = DdpOf(plan.ddp.step_s, plan.ideal_s);
  for (const SlipstreamPrediction& one : plan.slipstreams) {
    *out.add_slipstream() = ToProto(one);
  }
  return out;
}

v1::RemedyDecision ToProto(const RemedyDecision& decision) {
  v1::RemedyDecision out;
  out.set_id(decision.id);
  out.set_kind(ToWire<v1::RemedyKind>(decision.kind));
  out.set_state(ToWire<v1::DecisionState>(decision.state));
  *out.mutable_time() = ToProto(decision.made);
  out.set_undoes(decision.undoes);
  out.set_automatic(decision.automatic);
  out.set_by(decision.by);
  out.set_summary(DescribeRemedy(decision));
  SetBasis(decision, &out);
  *out.mutable_ladder() = ToProto(decision.ladder);
  *out.mutable_former() = ToProto(decision.former);
  if (decision.kind == RemedyKind::kStrategy) {
    *out.mutable_strategy() = ToProto(decision.strategy);
    *out.mutable_former_strategy() = ToProto(decision.former_strategy);
  }
  out.set_cost_s(decision.cost_s);
  out.set_predicted_s(decision.predicted_s);
  SetOutcome(decision, &out);
  return out;
}

v1::JobAdvice ToProto(const JobView& view, const JobStragglers* stragglers) {
  v1::JobAdvice out;
  out.set_job_id(view.job->request.id.value());
  out.set_mode(ToProto(view.job->request.stragglers));
  out.set_brake(view.facts.brake);
  if (stragglers == nullptr) return out;
  const ReportedVerdicts& reported = stragglers->reported();
  const auto& slow = reported.slow();
  const auto first_rank = slow.lower_bound(0);
  for (auto it = first_rank; it != slow.end(); ++it) *out.add_stragglers() = ToProto(it->second);
  for (auto it = slow.begin(); it != first_rank; ++it) *out.add_stragglers() = ToProto(it->second);
  for (const auto& [group, verdict] : reported.slow_exchanges()) {
    *out.add_stragglers() = ToProto(verdict);
  }
  for (const ReportedVerdict& verdict : reported.recent()) *out.add_recent() = ToProto(verdict);
  for (const RemedyDecision& decision : stragglers->policy().decisions()) {
    const bool goes_on = IsOpenAdvice(decision) || IsInFlight(decision) || IsChecked(decision);
    if (goes_on) *out.add_decisions() = ToProto(decision);
  }
  if (stragglers->plan().has_value()) *out.mutable_plan() = ToProto(*stragglers->plan());
  if (stragglers->strategy_advice().has_value()) {
    *out.mutable_strategy_plan() = ToProto(*stragglers->strategy_advice());
  }
  out.set_step_s(stragglers->step_s());
  out.set_steps_seen(stragglers->steps_seen());
  for (const int rank : stragglers->Unjudged()) out.add_unjudged_ranks(rank);
  return out;
}

RemedyDecision FromProto(const v1::RemedyDecision& decision) {
  RemedyDecision out;
  out.id = decision.id();
  out.kind = FromProto(decision.kind());
  out.state = ToCore(decision.state(), DecisionState::kWithdrawn, DecisionState::kWithdrawn);
  out.made = FromProto(decision.time());
  out.undoes = decision.undoes();
  out.automatic = decision.automatic();
  out.by = decision.by();
  out.generation = Generation(decision.generation());
  out.plan_version = PlanVersion(decision.plan_version());
  out.step = decision.step();
  out.rank = decision.rank();
  out.node = NodeName(decision.node());
  if (decision.has_verdict()) out.verdict = FromProto(decision.verdict());
  out.before = {decision.before_s(), decision.before_error_s()};
  if (decision.has_plan()) out.plan = FromProto(decision.plan());
  if (decision.has_strategy_plan()) out.strategy_advice = FromProto(decision.strategy_plan());
  out.lost_s = decision.lost_s();
  for (const v1::RemedyOption& option : decision.options()) {
    out.options.push_back(
        {FromProto(option.kind()), option.cost_s(), option.step_s(), option.total_s()});
  }
  out.reason = decision.reason();
  out.ladder = FromProto(decision.ladder());
  out.former = FromProto(decision.former());
  out.strategy = FromProto(decision.strategy()).slipstream;
  out.former_strategy = FromProto(decision.former_strategy()).slipstream;
  out.cost_s = decision.cost_s();
  out.predicted_s = decision.predicted_s();
  out.paid_s = decision.paid_s();
  out.measured_s = decision.measured_s();
  out.without_s = decision.without_s();
  out.done_generation = Generation(decision.done_generation());
  out.done_plan_version = PlanVersion(decision.done_plan_version());
  out.outcome = decision.outcome();
  if (decision.has_end_time()) out.ended = FromProto(decision.end_time());
  return out;
}

}  // namespace paceline
