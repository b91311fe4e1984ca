#include "controller/core/stragglers/job/job_trials.h"

#include <utility>

#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/core/stragglers/job/gradient_groups.h"

namespace paceline {
namespace {

// Weight of a new block of steps in the overhead.
constexpr double kBlockWeight = 0.25;

// A setup in which nothing is compared.
TrialSetup SetupOf(const Job& job) {
  TrialSetup setup;
  setup.homes = HomesOf(job);
  setup.gradient_groups = GradientGroups(job.request.strategy, setup.homes);
  setup.former = setup.present = job.plan.ladder;
  return setup;
}

}  // namespace

void JobTrials::Restart() {
  of_remedy_.reset();
  of_nothing_.reset();
}

void JobTrials::Begin(const RemedyDecision& done, std::vector<int> replaced, const Job& job) {
  of_remedy_.reset();
  if (done.undoes > 0 || done.kind == RemedyKind::kShrink || done.kind == RemedyKind::kStrategy ||
      job.plan.slipstream.has_value() || !IsWhole(job) || job.request.shards > 1) {
    return;
  }
  TrialSetup setup = SetupOf(job);
  if (overhead_ > 0) setup.overhead = overhead_;
  if (done.kind == RemedyKind::kLadder) {
    setup.former = done.former;
  } else {
    if (replaced.empty()) return;
    setup.replaced = std::move(replaced);
    setup.slowdown = done.verdict.slowdown;
  }
  of_remedy_.emplace(std::move(setup));
}

std::optional<ComparedSteps> JobTrials::Add(const StepRow& row, const Job& job,
                                            const AllReduceCosts& averaging,
                                            double gradient_exchange_s) {
  if (job.plan.slipstream.has_value() || job.request.shards > 1) return std::nullopt;
  if (!of_nothing_.has_value()) of_nothing_.emplace(SetupOf(job));
  const auto alike = of_nothing_->Add(row, averaging, gradient_exchange_s);
  if (alike.has_value() && alike->without_s > 0) {
    const double ratio = alike->with_s / alike->without_s;
    overhead_ += (overhead_ == 0 ? 1 : kBlockWeight) * (ratio - overhead_);
  }
  if (!of_remedy_.has_value()) return std::nullopt;
  return of_remedy_->Add(row, averaging, gradient_exchange_s);
}

}  // namespace paceline
