#include "controller/core/stragglers/ladder/ladder_planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/ladder/ladder_averages.h"
#include "controller/core/stragglers/ladder/ladder_model.h"

namespace paceline {
namespace {

constexpr int kParts = 16;
constexpr double kOneSided95 = 1.645;

double Sum(const std::vector<double>& values, size_t begin, size_t end) {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(begin),
                         values.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
}

class Planner {
 public:
  Planner(const LadderInputs& inputs, const LadderOptions& options)
      : inputs_(inputs),
        options_(options),
        ranks_(inputs.times.ranks),
        model_(inputs.times, inputs.gradient_groups) {}

  LadderPlan Plan() {
    plan_.stalls = SummarizeStalls(inputs_.times);
    plan_.synchronous = PredictSynchronous();
    plan_.current = inputs_.current.empty() ? plan_.synchronous : Predict(inputs_.current);
    plan_.ladder = inputs_.current;
    plan_.step_s = plan_.current.step_s;
    if (plan_.current.step_s <= 0) {
      plan_.reason =
          absl::StrCat("not enough measured: ", inputs_.times.steps,
                       " steps hold no cycle of the ladder ", DescribeLadder(inputs_.current));
      return std::move(plan_);
    }
    for (const Ladder& ladder :
         CandidateLadders(inputs_.homes, inputs_.gradient_groups, options_.limits)) {
      LadderPrediction prediction = Predict(ladder);
      if (prediction.step_s > 0 && prediction.equivalent_period <= options_.max_equivalent_period) {
        plan_.candidates.push_back(std::move(prediction));
      }
    }
    std::stable_sort(plan_.candidates.begin(), plan_.candidates.end(),
                     [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
    Decide();
    if (plan_.candidates.size() > kCandidatesReported) plan_.candidates.resize(kCandidatesReported);
    return std::move(plan_);
  }

 private:
  LadderPrediction PredictSynchronous() const {
    LadderPrediction prediction;
    prediction.communication_s = inputs_.gradient_exchange_s;
    prediction.step_s = prediction.communication_s + plan_.stalls.synchronous_s;
    return prediction;
  }

  // Seconds per step for gradients and averages.
  double CommunicationOf(const std::vector<ModelLevel>& levels) const {
    return AveragesPerStep(levels, inputs_.costs) +
           GradientsPerStep(inputs_.gradient_groups, ranks_, inputs_.gradient_exchange_s,
                            inputs_.costs);
  }

  // The result has step_s 0 if the ladder cannot be played.
  LadderPrediction Predict(const Ladder& ladder) {
    const std::vector<ModelLevel> levels = LevelsOf(ladder, inputs_.homes);
    const std::vector<double> cycles = model_.Cycles(levels);
    LadderPrediction prediction;
    prediction.ladder = ladder;
    if (cycles.empty()) return prediction;
    const size_t steps = cycles.size() * static_cast<size_t>(levels.back().period);
    prediction.communication_s = CommunicationOf(levels);
    prediction.step_s =
        Sum(cycles, 0, cycles.size()) / static_cast<double>(steps) + prediction.communication_s;
    // Over the same steps as the ladder.
    const double synchronous = Sum(model_.synchronous(), 0, steps) / static_cast<double>(steps) +
                               plan_.synchronous.communication_s;
    prediction.speedup = synchronous / prediction.step_s;
    prediction.equivalent_period = EquivalentPeriod(ladder, inputs_.homes, inputs_.gradient_groups);
    return prediction;
  }

  // Lower bound of the speed-up, by a jackknife of the ratio over parts of the steps.
  double LowSpeedup(const LadderPrediction& prediction) {
    const std::vector<ModelLevel> levels = LevelsOf(prediction.ladder, inputs_.homes);
    const std::vector<double> cycles = model_.Cycles(levels);
    const auto period = static_cast<size_t>(levels.back().period);
    const size_t cycles_per_part = std::max<size_t>(1, cycles.size() / kParts);
    const size_t parts = cycles.size() / cycles_per_part;
    if (parts < 2) return 0;
    const size_t part_steps = cycles_per_part * period;
    std::vector<double> slow, fast;
    for (size_t part = 0; part < parts; ++part) {
      const auto steps = static_cast<double>(part_steps);
      slow.push_back(Sum(model_.synchronous(), part * part_steps, (part + 1) * part_steps) +
                     steps * plan_.synchronous.communication_s);
      fast.push_back(Sum(cycles, part * cycles_per_part, (part + 1) * cycles_per_part) +
                     steps * prediction.communication_s);
    }
    const double all_slow = Sum(slow, 0, parts);
    const double all_fast = Sum(fast, 0, parts);
    std::vector<double> without;
    for (size_t part = 0; part < parts; ++part) {
      without.push_back((all_slow - slow[part]) / (all_fast - fast[part]));
    }
    const auto count = static_cast<double>(parts);
    const double mean = Sum(without, 0, parts) / count;
    double squares = 0;
    for (const double ratio : without) squares += (ratio - mean) * (ratio - mean);
    return all_slow / all_fast - kOneSided95 * std::sqrt(squares * (count - 1) / count);
  }

  const LadderPrediction* Best() const {
    const LadderPrediction* best = nullptr;
    for (const LadderPrediction& candidate : plan_.candidates) {
      if (candidate.step_s > plan_.candidates.front().step_s * (1 + options_.tie)) break;
      if (best == nullptr || candidate.equivalent_period < best->equivalent_period) {
        best = &candidate;
      }
    }
    return best;
  }

  void Decide() {
    const LadderPrediction* best = Best();
    if (best != nullptr) plan_.speedup_low = LowSpeedup(*best);
    const int64_t warmup =
        std::max(inputs_.warmup_steps,
                 static_cast<int64_t>(options_.warmup_share * static_cast<double>(inputs_.steps)));
    const bool too_often = plan_.stalls.stall_share > options_.max_stall_share;
    const bool gains = best != nullptr && !too_often && best->speedup >= options_.min_speedup &&
                       plan_.speedup_low >= (1 + options_.min_speedup) / 2;
    const bool worn_out = !inputs_.current.empty() && plan_.current.speedup < options_.keep_speedup;
    const bool is_better =
        gains && (plan_.current.step_s >= options_.min_speedup * best->step_s || worn_out);
    if (inputs_.step < warmup) {
      plan_.advice = LadderAdvice::kWarmUp;
      plan_.reason = absl::StrCat("the warm-up ends at step ", warmup);
    } else if (HasOuterStep(inputs_.current)) {
      plan_.advice = LadderAdvice::kKeep;
      plan_.reason = absl::StrCat("the ladder ", DescribeLadder(inputs_.current),
                                  " has an outer step, whose rates are for its periods: it stays "
                                  "until you change it");
    } else if (is_better && !(best->ladder == inputs_.current)) {
      plan_.advice = LadderAdvice::kChange;
      plan_.ladder = best->ladder;
      plan_.step_s = best->step_s;
      plan_.reason = absl::StrFormat(
          "ladder %s: %.4g s a step instead of %.4g s, %.2f x as fast as synchronous steps; %s",
          DescribeLadder(best->ladder), best->step_s, plan_.current.step_s, best->speedup,
          Stalls());
    } else if (worn_out) {
      plan_.advice = LadderAdvice::kSynchronous;
      plan_.ladder.clear();
      plan_.step_s = plan_.synchronous.step_s;
      plan_.reason =
          absl::StrFormat("the ladder %s is only %.2f x as fast as synchronous steps; %s",
                          DescribeLadder(inputs_.current), plan_.current.speedup, Stalls());
    } else {
      plan_.advice = LadderAdvice::kKeep;
      plan_.reason = WhyKept(best);
    }
  }

  std::string WhyKept(const LadderPrediction* best) const {
    if (!inputs_.current.empty()) {
      return absl::StrFormat(
          "the ladder %s is %.2f x as fast as synchronous steps, no other is "
          "better by %.0f %%; %s",
          DescribeLadder(inputs_.current), plan_.current.speedup, 100 * (options_.min_speedup - 1),
          Stalls());
    }
    if (best == nullptr) {
      return inputs_.gradient_groups.size() == 1
                 ? "no ladder for these ranks: all of them share their gradients at each step "
                   "(strategy.gradient_group_size)"
                 : "no ladder for these ranks";
    }
    if (plan_.stalls.stall_share > options_.max_stall_share) {
      return absl::StrCat("the ranks stall too often for a ladder; ", Stalls());
    }
    const StallSummary& stalls = plan_.stalls;
    if (stalls.floor_s > options_.min_speedup * stalls.typical_s &&
        stalls.synchronous_s < options_.min_speedup * stalls.floor_s) {
      return absl::StrFormat(
          "no ladder helps: all wait for rank %d, which takes %.4g s a step "
          "where %.4g s are usual",
          stalls.slowest_rank, stalls.floor_s, stalls.typical_s);
    }
    return absl::StrFormat("the best ladder, %s, is only %.2f x as fast (at least %.2f x); %s",
                           DescribeLadder(best->ladder), best->speedup, plan_.speedup_low,
                           Stalls());
  }

  std::string Stalls() const {
    return absl::StrFormat("%.2g %% of the steps of a rank stall, by %.3g s",
                           100 * plan_.stalls.stall_share, plan_.stalls.mean_stall_s);
  }

  const LadderInputs& inputs_;
  const LadderOptions& options_;
  const int ranks_;
  LadderModel model_;
  LadderPlan plan_;
};

}  // namespace

LadderPlan PlanLadder(const LadderInputs& inputs, const LadderOptions& options) {
  LadderPlan plan;
  plan.ladder = inputs.current;
  if (inputs.times.steps < options.min_steps || inputs.times.steps < 1) {
    plan.reason = absl::StrCat("not enough measured: ", inputs.times.steps, " of ",
                               options.min_steps, " steps");
    return plan;
  }
  if (inputs.costs.empty()) {
    plan.reason = "not enough measured: what an average of parameters costs";
    return plan;
  }
  return Planner(inputs, options).Plan();
}

}  // namespace paceline
