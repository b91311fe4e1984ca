#include "controller/core/stragglers/job/job_stragglers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "controller/core/state_groups.h"

namespace paceline {
namespace {

// Steps that a window for the policy holds.
constexpr int64_t kSpanSteps = 10;
// The first steps of a generation that say nothing about those that follow.
constexpr int kRowsToSkip = 10;
// Weight of a new measurement of the exchange of gradients.
constexpr double kForgetting = 0.1;
// The same of a block of steps.
constexpr double kBlockWeight = 0.25;
// What the detector may keep open, in reports.
constexpr int kOpenReports = 1 << 20;

// Steps done when the ranks of the present generation began.
int64_t FirstStep(const Job& job) {
  const auto& history = job.recovery.history;
  const bool follows = !history.empty() && history.back().generation == job.generation;
  return follows ? history.back().step : 0;
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

// None: ranks exchange no gradients among a part of them.
std::vector<int> GradientGroups(const JobStrategy& strategy, const std::vector<RankHome>& homes) {
  if (!strategy.has_ladder) return {};
  std::vector<int> groups =
      strategy.gradient_group_size == 0
          ? LadderGroups(LadderScope::kNode, 0, homes)
          : LadderGroups(LadderScope::kSize, strategy.gradient_group_size, homes);
  const bool alone = std::all_of(groups.begin(), groups.end(), [](int size) { return size == 1; });
  return alone ? std::vector<int>() : groups;
}

// With nothing to compare.
TrialSetup SetupOf(const Job& job) {
  TrialSetup setup;
  setup.homes = HomesOf(job);
  setup.gradient_groups = GradientGroups(job.request.strategy, setup.homes);
  setup.former = setup.present = job.plan.ladder;
  return setup;
}

bool IsOn(const Job& job, const NodeName& node) {
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [&](const RankState& rank) { return rank.place.node == node; });
}

// Why the newest plan cannot be prepared; empty: nothing is known of that.
std::string PlanError(const Job& job) {
  for (const RankState& rank : job.ranks) {
    if (rank.report.plan.failed == job.plan.epoch) return rank.report.plan.error;
  }
  return "";
}

enum class OrderState { kUnderWay, kDone, kFailed };

struct OrderProgress {
  OrderState state = OrderState::kUnderWay;
  std::string error = {};
};

OrderProgress FollowLadder(const RemedyDecision& decision, const JobView& view) {
  const Job& job = *view.job;
  if (job.plan.epoch == decision.epoch) {
    return {OrderState::kFailed, "the ladder could not be changed"};
  }
  if (view.facts.running && decision.epoch < view.facts.epoch && !view.facts.plan_pending) {
    return {OrderState::kDone};
  }
  const std::string error = PlanError(job);
  if (!error.empty()) return {OrderState::kFailed, error};
  return {};
}

OrderProgress FollowMove(const RemedyDecision& decision, const JobView& view) {
  const Job& job = *view.job;
  const bool is_left = !IsOn(job, decision.node);
  if (view.facts.running && decision.generation < job.generation && is_left) {
    return {OrderState::kDone};
  }
  const bool is_asked = decision.kind == RemedyKind::kDrain
                            ? view.is_drained(decision.node)
                            : job.recovery.vacate.count(decision.node) > 0;
  const bool goes_on =
      is_asked || is_left || decision.kind == RemedyKind::kShrink || !view.facts.running;
  if (goes_on) return {};
  return {OrderState::kFailed, "it was refused, or taken back"};
}

OrderProgress FollowDecision(const RemedyDecision& decision, const JobView& view) {
  if (decision.kind == RemedyKind::kLadder) return FollowLadder(decision, view);
  if (decision.undoes == 0) return FollowMove(decision, view);
  if (!view.is_drained(decision.node)) return {OrderState::kDone};
  return {OrderState::kFailed, absl::StrCat(decision.node.value(), " is held by a person")};
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
    slow_.clear();
    Add(policy_.OnJobEnded(now));
    return std::exchange(actions_, {});
  }
  const bool is_new = view.facts.generation != generation_ || view.facts.epoch != epoch_;
  if (view.facts.running && is_new) Begin(view);
  FollowOrder(view, now);
  return Conclude(view, now);
}

RemedyActions JobStragglers::TakeSteps(const NodeName& node, const TrainerId& trainer,
                                       absl::Span<const StepTimes> steps, const JobView& view,
                                       Moment now) {
  const auto rank = ranks_.find(trainer);
  const bool follows = view.facts.running && view.facts.generation == generation_ &&
                       detector_ != nullptr && policy_.mode() != StragglerMode::kOff;
  if (!follows || rank == ranks_.end() ||
      view.job->ranks[static_cast<size_t>(rank->second)].place.node != node) {
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
  epoch_ = view.facts.epoch;
  first_step_ = FirstStep(job);
  slow_.clear();
  ranks_.clear();
  if (ranks < 2) {
    detector_.reset();
    return;
  }
  std::map<std::string, int> groups;
  std::vector<DetectorRank> peers;
  for (int r = 0; r < ranks; ++r) {
    const RankState& rank = job.ranks[static_cast<size_t>(r)];
    ranks_[rank.report.id] = r;
    const auto known = std::find(nodes_.begin(), nodes_.end(), rank.place.node);
    const int node = static_cast<int>(known - nodes_.begin());
    if (known == nodes_.end()) nodes_.push_back(rank.place.node);
    const std::string& hardware = view.hardware[static_cast<size_t>(r)];
    peers.push_back({node, groups.emplace(hardware, groups.size()).first->second});
  }
  if (detector_ == nullptr) {
    DetectorOptions options = options_.detector;
    options.open_steps = std::clamp(kOpenReports / ranks, options.open_steps, kOpenSteps);
    detector_ = std::make_unique<StragglerDetector>(options, std::move(peers));
  } else {
    detector_->Restart(std::move(peers));
  }
  if (is_new_generation || measured_ == nullptr) {
    measured_ = std::make_unique<Measured>(ranks);
    measured_->rows_to_skip = kRowsToSkip;
    plan_.reset();
  }
  measured_->span = {};
  measured_->trial.reset();
  measured_->calibration.reset();
}

void JobStragglers::TakeStep(int rank, const StepTimes& times, const JobView& view, Moment now) {
  if (times.step < first_step_ || times.step >= view.job->request.steps) {
    ++dropped_;
    return;
  }
  detector_->Add(SampleOf(rank, times), found_);
  if (!IsPlausible(times)) {
    ++dropped_;
    return;
  }
  if (times.masked) {
    measured_->stalls.Mask(times.step);
  } else {
    measured_->stalls.Add(rank, times.step, OwnSeconds(times));
  }
  const std::optional<StepRow> row = measured_->rows.Add(rank, times);
  if (row.has_value()) TakeRow(*row, view, now);
}

void JobStragglers::TakeRow(const StepRow& row, const JobView& view, Moment now) {
  ++rows_seen_;
  if (row.masked || measured_->rows_to_skip-- > 0) return;
  measured_->rows_to_skip = 0;
  step_s_ = row.total_s;
  for (const auto& [ranks, seconds] : row.averaging_s) measured_->averaging.Add(ranks, seconds);
  if (view.job->plan.ladder.empty()) {
    double& exchange = measured_->gradient_exchange_s;
    exchange += (exchange == 0 ? 1 : kForgetting) * (row.communication_s - exchange);
  }
  Calibrate(row, view);
  if (measured_->trial.has_value()) {
    const auto compared =
        measured_->trial->Add(row, measured_->averaging, measured_->gradient_exchange_s);
    if (compared.has_value()) Add(policy_.OnComparedSteps(*compared, view.facts, now));
  }
  StepSpan& span = measured_->span;
  if (span.steps == 0) span = {generation_, epoch_, row.step, 0, 0};
  ++span.steps;
  span.seconds += row.total_s;
  if (span.steps < kSpanSteps) return;
  Add(policy_.OnStepTimes(std::exchange(span, {}), view.facts, now));
}

void JobStragglers::Calibrate(const StepRow& row, const JobView& view) {
  if (!measured_->calibration.has_value()) measured_->calibration.emplace(SetupOf(*view.job));
  const auto compared =
      measured_->calibration->Add(row, measured_->averaging, measured_->gradient_exchange_s);
  if (!compared.has_value() || compared->without_s <= 0) return;
  const double ratio = compared->with_s / compared->without_s;
  overhead_ += (overhead_ == 0 ? 1 : kBlockWeight) * (ratio - overhead_);
}

void JobStragglers::Judge(const JobView& view, Moment now) {
  // Ranks of a slow node are one trouble: nothing is done for one of them before the node is known.
  std::stable_partition(found_.begin(), found_.end(), [](const Verdict& verdict) {
    return verdict.kind == VerdictKind::kNode;
  });
  for (const Verdict& verdict : found_) {
    const NodeName node =
        verdict.node >= 0 ? nodes_[static_cast<size_t>(verdict.node)] : NodeName();
    const ToldVerdict told{verdict, node, now.wall};
    recent_.push_back(told);
    if (recent_.size() > kVerdictsKept) recent_.pop_front();
    switch (verdict.kind) {
      case VerdictKind::kSuspect:
      case VerdictKind::kPersistent:
        slow_[verdict.rank] = told;
        break;
      case VerdictKind::kNode:
        slow_[-1 - verdict.node] = told;
        break;
      case VerdictKind::kTransient:
      case VerdictKind::kRecovered:
        slow_.erase(verdict.rank);
        slow_.erase(-1 - verdict.node);
        break;
      case VerdictKind::kGroup:
        break;
    }
    Add(policy_.OnVerdict({verdict, node, generation_, epoch_}, view.facts, now));
  }
  found_.clear();
}

bool JobStragglers::MayPlan(const JobView& view, Moment now) const {
  return now.steady >= plan_due_ && !view.facts.plan_pending &&
         static_cast<int>(view.job->ranks.size()) == view.job->request.ranks;
}

void JobStragglers::Plan(const JobView& view, Moment now) {
  if (!MayPlan(view, now)) return;
  plan_due_ = now.steady + options_.plan_every;
  const Job& job = *view.job;
  LadderInputs inputs;
  inputs.times = measured_->stalls.Take();
  inputs.homes = HomesOf(job);
  inputs.gradient_groups = GradientGroups(job.request.strategy, inputs.homes);
  inputs.costs = measured_->averaging;
  inputs.gradient_exchange_s = measured_->gradient_exchange_s;
  if (inputs.costs.empty()) inputs.costs.Add(inputs.times.ranks, inputs.gradient_exchange_s);
  inputs.current = job.plan.ladder;
  inputs.step = view.facts.step;
  inputs.steps = job.request.steps;
  inputs.warmup_steps = job.request.strategy.warmup_steps;
  LadderOptions options = options_.ladder;
  if (job.request.strategy.one_level) options.limits.max_levels = 1;
  plan_ = PlanLadder(inputs, options);
  Add(policy_.OnLadderPlan({*plan_, generation_, epoch_}, view.facts, now));
}

void JobStragglers::FollowOrder(const JobView& view, Moment now) {
  const auto& decisions = policy_.decisions();
  const auto found = std::find_if(decisions.begin(), decisions.end(), IsInFlight);
  if (found == decisions.end()) {
    order_.reset();
    return;
  }
  const int64_t id = found->id;
  const OrderProgress order = FollowDecision(*found, view);
  if (order.state == OrderState::kFailed) {
    Add(policy_.OnRemedyFailed(id, order.error, view.facts, now));
  } else if (order.state == OrderState::kDone) {
    double paid_s = 0;
    if (order_.has_value() && order_->id == id) {
      const auto steps = static_cast<double>(view.facts.step - order_->step);
      const double elapsed_s = absl::ToDoubleSeconds(now.steady - order_->given);
      paid_s = std::max(0.0, elapsed_s - steps * found->before.seconds);
    }
    Add(policy_.OnRemedyDone(id, paid_s, view.facts, now));
    if (const RemedyDecision* done = policy_.Find(id)) BeginTrial(*done, view);
  }
}

void JobStragglers::BeginTrial(const RemedyDecision& decision, const JobView& view) {
  if (measured_ == nullptr) return;
  measured_->trial.reset();
  const Job& job = *view.job;
  const bool is_whole = static_cast<int>(job.ranks.size()) == job.request.ranks;
  if (decision.undoes > 0 || decision.kind == RemedyKind::kShrink || !is_whole) return;
  TrialSetup setup = SetupOf(job);
  if (overhead_ > 0) setup.overhead = overhead_;
  if (decision.kind == RemedyKind::kLadder) {
    setup.former = decision.former;
  } else {
    if (decision.rank >= 0) setup.replaced = {decision.rank};
    if (order_.has_value() && order_->id == decision.id) setup.replaced = order_->ranks;
    setup.slowdown = decision.verdict.slowdown;
    if (setup.replaced.empty()) return;
  }
  measured_->trial.emplace(std::move(setup));
}

RemedyActions JobStragglers::Conclude(const JobView& view, Moment now) {
  if (actions_.order.has_value()) {
    order_ = {*actions_.order, now.steady, view.facts.step, {}};
    const NodeName& node = policy_.Find(*actions_.order)->node;
    for (size_t r = 0; r < view.job->ranks.size(); ++r) {
      if (view.job->ranks[r].place.node == node) order_->ranks.push_back(static_cast<int>(r));
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
