#include "controller/core/stragglers/ladder/outer_outlook.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/ladder/ladder_averages.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/ladder/ladder_model.h"

namespace paceline {
namespace {

// Bytes of int8 relative to those of fp32; the scales of its rows are left out.
constexpr double kInt8 = 0.25;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// By each rank, in one exchange among this many, as a multiple of what is exchanged.
double SentPerExchange(int ranks) { return 2.0 * (ranks - 1) / ranks; }

double SentPerStep(const std::vector<ModelLevel>& levels) {
  AllReduceCosts sent;  // Bytes in place of seconds.
  for (const ModelLevel& level : levels) {
    const int ranks = LargestGroup(level.groups);
    sent.Add(ranks, SentPerExchange(ranks));
  }
  return AveragesPerStep(levels, sent);
}

class Predictor {
 public:
  explicit Predictor(const LadderInputs& inputs)
      : inputs_(inputs),
        ranks_(inputs.times.ranks),
        model_(inputs.times, inputs.gradient_groups),
        synchronous_s_(Mean(model_.synchronous())) {}

  ExchangePace Today() {
    if (!inputs_.current.empty()) {
      const std::vector<ModelLevel> levels = LevelsOf(inputs_.current, inputs_.homes);
      return Pace(levels, AveragesPerStep(levels, inputs_.costs), 1);
    }
    ExchangePace pace;
    pace.exchange_s = inputs_.gradient_exchange_s;
    pace.step_s = synchronous_s_ + pace.exchange_s;
    pace.sent = SentPerExchange(ranks_);
    return pace;
  }

  // `format`: bytes relative to today's.
  ExchangePace Outer(int64_t period, double format) {
    const double hidden_s = inputs_.current.empty() ? synchronous_s_ : 0;
    const double mean_s = inputs_.costs.Of(ranks_) + hidden_s;
    return Pace({{period, {ranks_}}}, format * mean_s / static_cast<double>(period), format);
  }

 private:
  // step_s is 0 if no cycle was measured.
  ExchangePace Pace(const std::vector<ModelLevel>& levels, double averages_s, double format) {
    ExchangePace pace;
    const std::vector<double> cycles = model_.Cycles(levels);
    if (cycles.empty()) return pace;
    pace.exchange_s = averages_s + GradientsPerStep(inputs_.gradient_groups, ranks_,
                                                    inputs_.gradient_exchange_s, inputs_.costs);
    pace.step_s = Mean(cycles) / static_cast<double>(levels.back().period) + pace.exchange_s;
    pace.sent =
        format * SentPerStep(levels) + SentPerExchange(LargestGroup(inputs_.gradient_groups));
    return pace;
  }

  const LadderInputs& inputs_;
  const int ranks_;
  LadderModel model_;
  const double synchronous_s_;
};

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }

}  // namespace

OuterOutlook PredictOuterSteps(const LadderInputs& inputs, const OuterOptions& options) {
  OuterOutlook outlook;
  if (inputs.times.ranks < 2 || inputs.times.steps < 1 || inputs.costs.empty() ||
      HasOuterStep(inputs.current)) {
    return outlook;
  }
  Predictor predictor(inputs);
  const ExchangePace today = predictor.Today();
  if (today.step_s <= 0 || today.sent <= 0) return outlook;
  outlook.today = today;
  for (const int64_t period : options.periods) {
    const ExchangePace pace = predictor.Outer(period, 1);
    if (pace.step_s <= 0) break;
    outlook.period = period;
    outlook.outer = pace;
    if (pace.share() <= options.share) break;
  }
  if (outlook.period > 0) outlook.int8 = predictor.Outer(outlook.period, kInt8);
  return outlook;
}

std::string DescribeOuterSteps(const OuterOutlook& outlook, const std::string& job,
                               bool has_ladder) {
  const ExchangePace& today = outlook.today;
  const std::string predicted = absl::StrFormat(
      "%.0f %% of a step is exchange, and no rank is slow; a mean every %d steps with an outer "
      "step: predicted %.1f times the steps/s, %s of the bytes in the same format, and with int8 "
      "in place of fp32 up to %.1f times, %s; it changes what is computed (docs/outer-steps.md), "
      "so Paceline never does it by itself",
      100 * today.share(), outlook.period, outlook.speedup(),
      Percent(outlook.outer.sent / today.sent), today.step_s / outlook.int8.step_s,
      Percent(outlook.int8.sent / today.sent));
  if (has_ladder) {
    return absl::StrCat(predicted, ": `paceline job ladder ", job, " ", outlook.period,
                        ":all:nesterov/0.7/0.9`");
  }
  return absl::StrCat(
      predicted, "; this job's strategy has no ladder: submit one with `strategy: {kind: hsgd, ",
      "warmup_steps: 1, gradient_group_size: 1, ladder: [{period: ", outlook.period,
      ", level: all, outer: {kind: nesterov}}]}`, and `resume_from: ", job,
      "` to go on from its newest checkpoint");
}

}  // namespace paceline
