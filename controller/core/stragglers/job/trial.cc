#include "controller/core/stragglers/job/trial.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "controller/core/stragglers/ladder/ladder_averages.h"
#include "controller/core/stragglers/ladder/ladder_model.h"

namespace paceline {
namespace {

// The least and the greatest number of steps in a block. It has so many that what it shares with
// the next one matters little.
constexpr int64_t kShortest = 32;
constexpr int64_t kLongest = 256;

int64_t CycleOf(const Ladder& ladder) { return ladder.empty() ? 1 : ladder.back().period; }

// Steps in a block; 0: it would be too long.
int64_t BlockOf(const TrialSetup& setup) {
  const int64_t cycle = std::lcm(CycleOf(setup.former), CycleOf(setup.present));
  const int64_t block = cycle * ((kShortest + cycle - 1) / cycle);
  return block <= kLongest ? block : 0;
}

}  // namespace

Trial::Trial(TrialSetup setup) : setup_(std::move(setup)), block_(BlockOf(setup_)) {
  times_.ranks = static_cast<int>(setup_.homes.size());
}

std::optional<ComparedSteps> Trial::Add(const StepRow& row, const AllReduceCosts& averaging,
                                        double gradient_exchange_s) {
  if (block_ == 0 || row.own_s.size() != setup_.homes.size()) return std::nullopt;
  if (times_.steps == 0) first_step_ = row.step;
  times_.seconds.insert(times_.seconds.end(), row.own_s.begin(), row.own_s.end());
  for (const int rank : setup_.replaced) {
    times_.seconds[times_.seconds.size() - row.own_s.size() + static_cast<size_t>(rank)] *=
        static_cast<float>(setup_.slowdown);
  }
  ++times_.steps;
  with_s_ += row.total_s;
  if (times_.steps < block_) return std::nullopt;

  LadderModel model(times_, setup_.gradient_groups);
  const std::vector<ModelLevel> levels = LevelsOf(setup_.former, setup_.homes);
  const std::vector<double> parts = levels.empty() ? model.synchronous() : model.Cycles(levels);
  const double communication_s =
      levels.empty() ? gradient_exchange_s : AveragesPerStep(levels, averaging);
  ComparedSteps compared;
  compared.first_step = first_step_;
  compared.steps = times_.steps;
  compared.with_s = std::exchange(with_s_, 0);
  compared.without_s = setup_.overhead * (std::accumulate(parts.begin(), parts.end(), 0.0) +
                                          communication_s * static_cast<double>(times_.steps));
  times_.steps = 0;
  times_.seconds.clear();
  if (parts.empty()) return std::nullopt;  // The levels are not nested.
  return compared;
}

}  // namespace paceline
