#include "controller/core/stragglers/job/job_stragglers.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/core/stragglers/job/gradient_groups.h"
#include "controller/core/stragglers/job/order_progress.h"
#include "controller/core/stragglers/ladder/outer_outlook.h"

namespace paceline {
namespace {

// How many steps a window for the policy holds.
constexpr int64_t kSpanSteps = 10;
// How many first steps of a generation say nothing about later ones.
constexpr int kRowsToSkip = 10;
// Weight of a new measurement of the exchange of gradients.
constexpr double kForgetting = 0.1;
// How many stalls show which share of them freezes communication.
constexpr int64_t kStallsForShare = 20;
// How often a rank copies in a round of updates: two before, one after.
constexpr double kCopiesPerRound = 3;
// Of how many steps reports are waited for, at most, in reports and in steps.
constexpr int kOpenReports = 1 << 20;
constexpr int kOpenSteps = 256;

// Steps done when the ranks of the present generation began.
int64_t FirstStep(const Job& job) {
  const auto& history = job.recovery.history;
  const bool follows = !history.empty() && history.back().generation == job.generation;
  return follows ? history.back().step : 0;
}

// For a program that is not ours: its ranks wait for each other inside the backward pass, nobody
// knows how long.
StepTimes WithoutBackward(StepTimes times) {
  times.communication_s += std::exchange(times.backward_s, 0);
  return times;
}

StepSample SampleOf(int rank, const StepTimes& times) {
  StepSample sample;
  sample.rank = rank;
  sample.step = times.step;
  sample.forward_s = times.forward_s;
  sample.backward_s = times.backward_s;
  sample.data_wait_s = times.data_wait_s;
  sample.wall_s = times.total_s;
  sample.workload = times.workload;
  sample.masked = times.masked;
  return sample;
}

// The share of all ranks that the verdict is about: if nobody waits for slow ranks, only their own
// work is lost.
double ShareOfRanks(const Verdict& verdict, const NodeName& node, const Job& job) {
  if (verdict.kind == VerdictKind::kGroup) return 1;
  const auto ranks = static_cast<double>(job.ranks.size());
  if (verdict.rank >= 0) return 1 / ranks;
  const auto there = std::count_if(job.ranks.begin(), job.ranks.end(),
                                   [&](const RankState& rank) { return rank.slot.node == node; });
  return static_cast<double>(there) / ranks;
}

}  // namespace

JobStragglers::JobStragglers(const StragglerOptions& options, StragglerMode mode)
    : options_(options), policy_(options.remedy, mode) {}

RemedyActions JobStragglers::Restore(std::vector<RemedyDecision> decisions, Moment now) {
  return policy_.Restore(std::move(decisions), now);
}

RemedyActions JobStragglers::Follow(const JobView& view, Moment now) {
  const Job& job = *view.job;
  if (job.request.stragglers != policy_.mode()) {
    Add(policy_.SetMode(job.request.stragglers, view.facts, now));
  }
  if (job.ended_already()) {
    detector_.reset();
    measured_.reset();
    exchanges_.reset();
    trials_.Restart();
    reported_.Restart();
    Add(policy_.OnJobEnded(now));
    return std::exchange(actions_, {});
  }
  const bool is_new =
      view.facts.generation != generation_ || view.facts.plan_version != plan_version_;
  if (view.facts.running && is_new) Begin(view);
  if (!actions_.order.has_value()) FollowOrder(view, now);  // Not one just made.
  return Conclude(view, now);
}

RemedyActions JobStragglers::TakeSteps(const NodeName& node, const TrainerId& trainer,
                                       absl::Span<const StepTimes> steps, const JobView& view,
                                       Moment now) {
  const auto rank = ranks_.find({trainer.generation, trainer.rank});
  const bool follows = view.facts.running && view.facts.generation == generation_ &&
                       detector_ != nullptr && policy_.mode() != StragglerMode::kOff;
  if (!follows || rank == ranks_.end() ||
      view.job->ranks[static_cast<size_t>(rank->second)].slot.node != node) {
    dropped_ += static_cast<int64_t>(steps.size());
    return {};
  }
  for (const StepTimes& times : steps) TakeStep(rank->second, times, view, now);
  Judge(view, now);
  Plan(view, now);
  return Conclude(view, now);
}

std::optional<Refusal> JobStragglers::RefuseApply(int64_t advice, const JobView& view) const {
  return policy_.RefuseApply(advice, view.facts);
}

RemedyActions JobStragglers::Apply(int64_t advice, const std::string& by, const JobView& view,
                                   Moment now) {
  Add(policy_.Apply(advice, by, view.facts, now));
  return Conclude(view, now);
}

RemedyActions JobStragglers::Tick(const JobView& view, Moment now) {
  Add(policy_.Tick(view.facts, now));
  return Conclude(view, now);
}

absl::Time JobStragglers::NextDeadline() const { return policy_.NextDeadline(); }

std::vector<int> JobStragglers::Unjudged() const {
  std::vector<int> ranks;
  if (detector_ == nullptr) return ranks;
  for (const auto& [id, rank] : ranks_) {
    if (detector_->status(rank) == RankStatus::kTooFewPeers) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void JobStragglers::Begin(const JobView& view) {
  const Job& job = *view.job;
  const int ranks = static_cast<int>(job.ranks.size());
  const bool is_new_generation = view.facts.generation != generation_;
  generation_ = view.facts.generation;
  plan_version_ = view.facts.plan_version;
  first_step_ = FirstStep(job);
  reported_.Restart();
  trials_.Restart();
  WatchExchanges(view);
  ranks_.clear();
  if (ranks < 2) {
    detector_.reset();
    return;
  }
  std::map<std::string, int> groups;
  std::vector<DetectorRank> peers;
  for (int r = 0; r < ranks; ++r) {
    const RankState& rank = job.ranks[static_cast<size_t>(r)];
    ranks_[{rank.report.id.generation, rank.report.id.rank}] = r;
    const auto known = std::find(nodes_.begin(), nodes_.end(), rank.slot.node);
    const int node = static_cast<int>(known - nodes_.begin());
    if (known == nodes_.end()) nodes_.push_back(rank.slot.node);
    const std::string& hardware = view.hardware[static_cast<size_t>(r)];
    peers.push_back({node, groups.emplace(hardware, groups.size()).first->second});
  }
  const int open_steps = std::clamp(kOpenReports / ranks, options_.detector.open_steps, kOpenSteps);
  if (detector_ == nullptr) {
    DetectorOptions options = options_.detector;
    options.open_steps = open_steps;
    detector_ = std::make_unique<StragglerDetector>(options, std::move(peers));
  } else {
    detector_->Restart(std::move(peers));
  }
  if (is_new_generation || measured_ == nullptr) {
    measured_ = std::make_unique<Measured>(ranks, open_steps, job.plan.slipstream.has_value());
    measured_->rows_to_skip = kRowsToSkip;
    plan_.reset();
    strategy_advice_.reset();
  }
  measured_->span = {};
}

void JobStragglers::WatchExchanges(const JobView& view) {
  const Job& job = *view.job;
  exchanges_.reset();
  // It is not known who exchanges with whom; or ranks of a replica wait for each other, too.
  if (!IsWhole(job) || job.plan.version != plan_version_ || job.request.shards > 1) return;
  ExchangeLevels levels;
  levels.ladder = job.plan.ladder;
  levels.homes = HomesOf(job);
  levels.gradient_groups = GradientGroups(job.request.strategy, levels.homes);
  levels.warmup_steps = job.request.strategy.warmup_steps;
  exchanges_.emplace(options_.detector, levels);
}

void JobStragglers::TakeStep(int rank, const StepTimes& reported, const JobView& view, Moment now) {
  const StepTimes times = HasEngine(view.job->request) ? reported : WithoutBackward(reported);
  if (times.step < first_step_ || times.step >= view.job->request.steps) {
    ++dropped_;
    return;
  }
  detector_->Add(SampleOf(rank, times), found_);
  if (!IsPlausible(times)) {
    ++dropped_;
    return;
  }
  if (measured_->own.has_value() && !times.masked) measured_->own->Add(rank, OwnSeconds(times));
  measured_->rows.Add(rank, times, found_rows_);
  for (const StepRow& row : found_rows_) TakeRow(row, view, now);
  found_rows_.clear();
}

void JobStragglers::TakeRow(const StepRow& row, const JobView& view, Moment now) {
  ++rows_seen_;
  if (row.masked) return;
  measured_->stalls.Add(row.own_s);
  if (measured_->rows_to_skip > 0) {
    --measured_->rows_to_skip;
    return;
  }
  step_s_ = row.total_s;
  if (exchanges_.has_value()) exchanges_->Add(row, found_exchanges_);
  for (const auto& [ranks, seconds] : row.averaging_s) measured_->averaging.Add(ranks, seconds);
  if (view.job->plan.ladder.empty() && !view.job->plan.slipstream.has_value()) {
    double& exchange = measured_->gradient_exchange_s;
    exchange += (exchange == 0 ? 1 : kForgetting) * (row.communication_s - exchange);
    measured_->gradient_bytes = row.sent_bytes;
    synchronous_exchange_s_ = exchange;
    synchronous_bytes_ = row.sent_bytes;
  }
  const auto compared =
      trials_.Add(row, *view.job, measured_->averaging, measured_->gradient_exchange_s);
  if (compared.has_value()) Add(policy_.OnComparedSteps(*compared, view.facts, now));
  StepSpan& span = measured_->span;
  if (span.steps == 0) span = {generation_, plan_version_, row.step, 0, 0};
  ++span.steps;
  span.seconds += row.total_s;
  if (span.steps < kSpanSteps) return;
  Add(policy_.OnStepTimes(std::exchange(span, {}), view.facts, now));
}

void JobStragglers::Judge(const JobView& view, Moment now) {
  // Ranks of a slow node are one trouble: nothing is done for one of them until the node is known.
  std::stable_partition(found_.begin(), found_.end(),
                        [](const Verdict& verdict) { return verdict.kind == VerdictKind::kNode; });
  for (Verdict& verdict : found_) {
    const NodeName node =
        verdict.node >= 0 ? nodes_[static_cast<size_t>(verdict.node)] : NodeName();
    const auto& slipstream = view.job->plan.slipstream;
    if (slipstream.has_value() && slipstream->own_pace())
      verdict.lost_share *= ShareOfRanks(verdict, node, *view.job);
    reported_.Tell({verdict, node, now.wall});
    Add(policy_.OnVerdict({verdict, node, generation_, plan_version_}, view.facts, now));
  }
  found_.clear();
  // A slow network is no reason for a remedy.
  for (const ExchangeVerdict& found : found_exchanges_) {
    reported_.Tell({found.verdict, NodeName(), now.wall, found.group});
  }
  found_exchanges_.clear();
}

bool JobStragglers::MayPlan(const JobView& view, Moment now) const {
  return now.steady >= plan_due_ && !view.facts.plan_pending &&
         !view.job->request.strategy.slipstream.has_value() && view.job->request.shards == 1 &&
         IsWhole(*view.job);
}

void JobStragglers::Plan(const JobView& view, Moment now) {
  if (!MayPlan(view, now)) return;
  plan_due_ = now.steady + options_.plan_every;
  if (view.job->request.strategy.is_auto) {
    PlanTheStrategy(view, now);
  } else {
    PlanTheLadder(view, now);
  }
}

void JobStragglers::PlanTheLadder(const JobView& view, Moment now) {
  const Job& job = *view.job;
  LadderInputs inputs;
  inputs.times = measured_->stalls.Take();
  inputs.homes = HomesOf(job);
  inputs.gradient_groups = GradientGroups(job.request.strategy, inputs.homes);
  inputs.costs = measured_->averaging;
  inputs.gradient_exchange_s = measured_->gradient_exchange_s;
  if (inputs.costs.empty()) {
    inputs.costs.Add(inputs.times.ranks, inputs.gradient_exchange_s, measured_->gradient_bytes);
  }
  inputs.current = job.plan.ladder;
  inputs.step = view.facts.step;
  inputs.steps = job.request.steps;
  inputs.warmup_steps = job.request.strategy.warmup_steps;
  LadderOptions options = options_.ladder;
  if (job.request.strategy.one_level) options.limits.max_levels = 1;
  plan_ = PlanLadder(inputs, options);
  Add(policy_.OnLadderPlan({*plan_, generation_, plan_version_}, view.facts, now));
  const bool is_early =
      plan_->advice == LadderAdvice::kNotMeasured || plan_->advice == LadderAdvice::kWarmUp;
  if (!is_early) LookAtOuterSteps(inputs, view, now);
}

void JobStragglers::PlanTheStrategy(const JobView& view, Moment now) {
  const Job& job = *view.job;
  StrategyInputs inputs;
  LadderInputs& measured = inputs.ladder;
  measured.times = measured_->own.has_value() ? measured_->own->Take() : measured_->stalls.Take();
  measured.homes = HomesOf(job);
  measured.gradient_exchange_s = synchronous_exchange_s_;
  measured.costs.Add(measured.times.ranks, synchronous_exchange_s_, synchronous_bytes_);
  measured.step = view.facts.step;
  measured.steps = job.request.steps;
  measured.warmup_steps = job.request.strategy.warmup_steps;
  inputs.freezing_share = measured_->own.has_value() ? FreezingShare(job) : 0;
  inputs.slipstream = slipstream_costs_;
  inputs.is_adaptive = job.request.strategy.is_adaptive;
  strategy_advice_ = AdviseStrategy(inputs, job.plan.slipstream);
  const StrategyMove move = strategy_advice_->move;
  const bool is_early = move == StrategyMove::kNotMeasured || move == StrategyMove::kWarmUp;
  if (!is_early) LookAtOuterSteps(measured, view, now);
  if (const std::string why = WhyNoSlipstream(job); !why.empty()) {
    strategy_advice_->move = StrategyMove::kKeep;
    strategy_advice_->choice = job.plan.slipstream;
    strategy_advice_->reason = absl::StrCat("ddp stays: ", why);
    return;
  }
  Add(policy_.OnStrategyAdvice({*strategy_advice_, generation_, plan_version_}, view.facts, now));
}

void JobStragglers::LookAtOuterSteps(const LadderInputs& measured, const JobView& view,
                                     Moment now) {
  const JobRequest& request = view.job->request;
  if (!HasEngine(request) || view.job->plan.slipstream.has_value()) return;
  const OuterOutlook outlook = PredictOuterSteps(measured);
  if (outlook.period == 0) return;
  Add(policy_.OnOuterOutlook(
      {outlook, DescribeOuterSteps(outlook, request.id.value(), request.strategy.has_ladder),
       generation_, plan_version_},
      view.facts, now));
}

double JobStragglers::FreezingShare(const Job& job) {
  int64_t stretched = 0;
  for (const RankState& rank : job.ranks) {
    const std::optional<RoundFigures>& rounds = rank.report.figures.rounds;
    if (!rounds.has_value()) continue;
    stretched = std::max(stretched, rounds->stretched);
    slipstream_costs_.reduce_s = rounds->collective_s;
    slipstream_costs_.pass_s = rounds->copies_s / kCopiesPerRound;
  }
  Measured& measured = *measured_;
  if (!measured.stretched_before.has_value()) {
    measured.stretched_before = stretched;
    measured.stalls_before = measured.own->stalls();
  }
  const int64_t stalls = measured.own->stalls() - measured.stalls_before;
  if (stalls < kStallsForShare) return 0;
  // One round may wait for several stalls.
  const auto share =
      static_cast<double>(stretched - *measured.stretched_before) / static_cast<double>(stalls);
  return std::clamp(share, 0.0, 1.0);
}

void JobStragglers::FollowOrder(const JobView& view, Moment now) {
  const auto& decisions = policy_.decisions();
  const auto found = std::find_if(decisions.begin(), decisions.end(), IsInFlight);
  if (found == decisions.end()) {
    order_.reset();
    return;
  }
  const int64_t id = found->id;
  const OrderProgress order = ProgressOf(*found, view);
  if (order.state == OrderState::kFailed) {
    Add(policy_.OnRemedyFailed(id, order.error, view.facts, now));
  } else if (order.state == OrderState::kDone) {
    double paid_s = 0;
    std::vector<int> replaced;
    if (found->rank >= 0) replaced = {found->rank};
    if (order_.has_value() && order_->id == id) {
      replaced = order_->ranks;
      const auto steps = static_cast<double>(view.facts.step - order_->step);
      const double elapsed_s = absl::ToDoubleSeconds(now.steady - order_->given);
      paid_s = std::max(0.0, elapsed_s - steps * found->before.seconds);
    }
    Add(policy_.OnRemedyDone(id, paid_s, view.facts, now));
    const RemedyDecision* const done = policy_.Find(id);
    if (done != nullptr) trials_.Begin(*done, std::move(replaced), *view.job);
  }
}

RemedyActions JobStragglers::Conclude(const JobView& view, Moment now) {
  if (actions_.order.has_value()) {
    order_ = {*actions_.order, now.steady, view.facts.step, {}};
    const NodeName& node = policy_.Find(*actions_.order)->node;
    for (size_t r = 0; r < view.job->ranks.size(); ++r) {
      if (view.job->ranks[r].slot.node == node) order_->ranks.push_back(static_cast<int>(r));
    }
  }
  return std::exchange(actions_, {});
}

void JobStragglers::Add(RemedyActions actions) {
  actions_.store.insert(actions_.store.end(), actions.store.begin(), actions.store.end());
  actions_.forget.insert(actions_.forget.end(), actions.forget.begin(), actions.forget.end());
  if (actions.order.has_value()) actions_.order = actions.order;
}

}  // namespace paceline
