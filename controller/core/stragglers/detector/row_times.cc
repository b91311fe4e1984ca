#include "controller/core/stragglers/detector/row_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr int64_t kChangesPerRank = 8;
constexpr double kSameTick = 1e-3;  // Relative.
constexpr double kNoMultiple = 0.02;

double LogOrNone(double seconds) { return seconds > 0 ? std::log(seconds) : kNone; }

double KnownOr0(double seconds) { return std::isnan(seconds) ? 0 : seconds; }

}  // namespace

RowTimes::RowTimes(int ranks)
    : own_(static_cast<size_t>(ranks)),
      forward_(static_cast<size_t>(ranks)),
      backward_(static_cast<size_t>(ranks)),
      work_(static_cast<size_t>(ranks)),
      own_s_(static_cast<size_t>(ranks)),
      data_wait_s_(static_cast<size_t>(ranks)),
      before_s_(static_cast<size_t>(ranks)) {}

RowTimes::Passes RowTimes::PassesOf(absl::Span<const StepCell> cells) {
  int present = 0;
  int both = 0;
  int forward = 0;
  int backward = 0;
  for (const StepCell& cell : cells) {
    if (!cell.present) continue;
    const bool has_forward = !std::isnan(cell.forward_s);
    const bool has_backward = !std::isnan(cell.backward_s);
    ++present;
    both += has_forward && has_backward ? 1 : 0;
    forward += has_forward ? 1 : 0;
    backward += has_backward ? 1 : 0;
  }
  if (2 * both >= present) return Passes::kBoth;
  return forward >= backward ? Passes::kForward : Passes::kBackward;
}

void RowTimes::SetWork(absl::Span<const StepCell> cells) {
  normalised_ = std::all_of(cells.begin(), cells.end(), [](const StepCell& cell) {
    return !cell.present || cell.workload > 0;
  });
  if (!normalised_) return;
  double sum = 0;
  int count = 0;
  for (size_t rank = 0; rank < cells.size(); ++rank) {
    work_[rank] = cells[rank].present ? std::log(cells[rank].workload) : kNone;
    if (!cells[rank].present) continue;
    sum += work_[rank];
    ++count;
  }
  if (std::isnan(usual_work_) && count > 0) usual_work_ = sum / count;
}

void RowTimes::Set(absl::Span<const StepCell> cells, const std::vector<bool>& slow,
                   double work_exponent) {
  SetWork(cells);
  passes_ = PassesOf(cells);
  job_s_ = slowest_s_ = second_s_ = 0;
  slowest_ = -1;
  double busiest_s = 0;
  double wall_s = 0;
  int walls = 0;
  for (size_t rank = 0; rank < cells.size(); ++rank) {
    const StepCell& cell = cells[rank];
    if (!cell.present) {
      own_[rank] = forward_[rank] = backward_[rank] = own_s_[rank] = data_wait_s_[rank] = kNone;
      continue;
    }
    own_s_[rank] = (passes_ == Passes::kBackward ? 0.0 : cell.forward_s) +
                   (passes_ == Passes::kForward ? 0.0 : cell.backward_s);
    data_wait_s_[rank] = cell.data_wait_s;
    LearnTick(before_s_[rank], cell.forward_s);
    before_s_[rank] = cell.forward_s;
    waited_ = waited_ || cell.data_wait_s > 0;
    const double work = normalised_ ? work_exponent * (work_[rank] - usual_work_) : 0;
    own_[rank] = LogOrNone(own_s_[rank]) - work;
    forward_[rank] = LogOrNone(cell.forward_s) - work;
    backward_[rank] = LogOrNone(cell.backward_s) - work;
    if (cell.wall_s > 0) {
      wall_s += cell.wall_s;
      ++walls;
    }
    const double busy_s = KnownOr0(own_s_[rank]) + KnownOr0(data_wait_s_[rank]);
    busiest_s = std::max(busiest_s, busy_s);
    if (slow[rank]) continue;
    if (busy_s > slowest_s_) {
      second_s_ = slowest_s_;
      slowest_s_ = busy_s;
      slowest_ = static_cast<int>(rank);
    } else {
      second_s_ = std::max(second_s_, busy_s);
    }
  }
  job_s_ = std::max(busiest_s, walls > 0 ? wall_s / walls : 0);
}

void RowTimes::LearnTick(float before_s, float now_s) {
  const double change_s = std::abs(now_s - before_s);
  if (!(change_s > 0) || !(before_s > 0)) return;
  if (change_s < (1 - kSameTick) * least_change_s_) {
    least_change_s_ = change_s;
    changes_ = 0;
    all_multiples_ = true;
  }
  ++changes_;
  const double ticks = now_s / least_change_s_;
  if (std::abs(ticks - std::round(ticks)) > kNoMultiple) all_multiples_ = false;
}

double RowTimes::tick_s() const {
  const bool enough = changes_ >= kChangesPerRank * static_cast<int64_t>(before_s_.size());
  return enough && all_multiples_ ? least_change_s_ : 0;
}

double RowTimes::LostTo(int rank) const {
  const auto r = static_cast<size_t>(rank);
  const double healthy_s = rank == slowest_ ? second_s_ : slowest_s_;
  if (healthy_s <= 0) return 0;  // There is nobody to compare with.
  return std::max(0.0, KnownOr0(own_s_[r]) + KnownOr0(data_wait_s_[r]) - healthy_s);
}

}  // namespace paceline
