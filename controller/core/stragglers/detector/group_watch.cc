#include "controller/core/stragglers/detector/group_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace paceline {
namespace {

constexpr double kManyShare = 0.25;
constexpr double kEvent = 0.0953;  // ln 1.1
constexpr double kNoEvent = kEvent / 2;
constexpr int64_t kFirstRows = 20;
constexpr int64_t kNewNormal = 150;
constexpr double kUsualRate = 0.02;
constexpr double kExcessRate = 0.05;
constexpr double kDifferenceRate = 0.05;
// How many times a jump exceeds the noise of a median of kRecent rows.
constexpr double kJumpSigmas = 5;
constexpr double kMedianSigma = 0.4;  // sqrt(pi / 2 / 10)
constexpr double kSigmaPerDifference = 0.886;

}  // namespace

GroupWatch::Event GroupWatch::Update(const GroupRow& row) {
  const bool many = row.slow > kManyShare * row.ranks;
  const bool many_begins = many && !many_;
  many_ = many;
  bool jump_begins = false;
  bool uneven_begins = false;
  if (!std::isnan(row.typical)) {
    jump_begins = UpdateJump(row);
    uneven_begins = !std::isnan(row.of_groups) && UpdateUneven(row);
  }
  if (many_begins) {
    since_step_ = row.step;
    estimate_ = {row.slow_low, row.slow_excess, row.slow_high};
    return Event::kMany;
  }
  if (jump_begins) {
    since_step_ = recent_steps_[static_cast<size_t>((rows_ - 1 - kRecent / 2) % kRecent)];
    estimate_ = EstimateRise();
    return Event::kJump;
  }
  if (uneven_begins) {
    since_step_ = excess_step_;
    estimate_ = EstimateOf(recent_excess_, kRecent);
    estimate_ = {std::min(estimate_.low, excess_), excess_, std::max(estimate_.high, excess_)};
    return Event::kUneven;
  }
  return Event::kNone;
}

bool GroupWatch::UpdateJump(const GroupRow& row) {
  if (rows_ == 0 || row.quantity != quantity_) {
    quantity_ = row.quantity;
    rows_ = 0;
    moved_ = 0;
    usual_ = row.typical;
    difference_ = 0;
  } else {
    const double before = recent_[static_cast<size_t>((rows_ - 1) % kRecent)];
    difference_ += (std::abs(row.typical - before) - difference_) *
                   std::max(kDifferenceRate, 1.0 / static_cast<double>(rows_));
  }
  recent_[static_cast<size_t>(rows_ % kRecent)] = row.typical;
  recent_steps_[static_cast<size_t>(rows_ % kRecent)] = row.step;
  ++rows_;
  const double sigma = kSigmaPerDifference * difference_;
  if (rows_ <= kFirstRows) {
    usual_ += (row.typical - usual_) / static_cast<double>(rows_);
    return false;
  }
  const double move = RecentMove();
  const double limit = std::max(kEvent, kJumpSigmas * kMedianSigma * sigma);
  if (moved_ != 0) {
    const bool is_normal = ++moved_rows_ >= kNewNormal;
    if (is_normal) usual_ += move;
    if (is_normal || moved_ * move <= limit / 2) moved_ = 0;
    return false;
  }
  if (std::abs(move) > limit) {
    moved_ = move > 0 ? 1 : -1;
    moved_rows_ = 0;
    return moved_ > 0;
  }
  const double cut = std::max(3 * sigma, 0.01);
  usual_ += kUsualRate * std::clamp(row.typical - usual_, -cut, cut);
  return false;
}

bool GroupWatch::UpdateUneven(const GroupRow& row) {
  if (compared_++ == 0) excess_step_ = row.step;
  const double rate = std::max(kExcessRate, 1.0 / static_cast<double>(compared_));
  excess_ += rate * (row.typical - row.of_groups - excess_);
  recent_excess_[static_cast<size_t>(compared_ % kRecent)] = row.typical - row.of_groups;
  if (compared_ < kFirstRows) return false;
  const bool before = uneven_;
  uneven_ = excess_ > (uneven_ ? kNoEvent : kEvent);
  return uneven_ && !before;
}

double GroupWatch::RecentMove() const {
  std::array<double, kRecent> sorted = recent_;
  std::sort(sorted.begin(), sorted.end());
  const double lower = sorted[kRecent / 2 - 1] - usual_;
  const double upper = sorted[kRecent / 2] - usual_;
  return std::abs(lower) < std::abs(upper) ? lower : upper;
}

GroupWatch::Estimate GroupWatch::EstimateRise() const {
  const double half = RecentMove() / 2;
  std::array<double, kRecent> risen;
  int count = 0;
  for (const double typical : recent_) {
    if (typical - usual_ > half) risen[static_cast<size_t>(count++)] = typical - usual_;
  }
  return EstimateOf(risen, count);
}

// The median and its 95 % interval: all but the two outermost values, if there are more than 8.
GroupWatch::Estimate GroupWatch::EstimateOf(std::array<double, kRecent> values, int count) {
  std::sort(values.begin(), values.begin() + count);
  const int cut = count > 8 ? 1 : 0;
  const auto at = [&](int i) { return values[static_cast<size_t>(i)]; };
  return {at(cut), (at((count - 1) / 2) + at(count / 2)) / 2, at(count - 1 - cut)};
}

}  // namespace paceline
