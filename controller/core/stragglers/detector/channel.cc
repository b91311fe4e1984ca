#include "controller/core/stragglers/detector/channel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// Levels move slowly: they are learned in each of the first rows, and later every so many rows.
constexpr int64_t kLevelRows = 16;

}  // namespace

Channel::Channel(int ranks, const WatchOptions& options)
    : options_(options),
      noise_(ranks),
      watches_(static_cast<size_t>(ranks)),
      slow_(static_cast<size_t>(ranks)),
      residuals_(static_cast<size_t>(ranks), kNone),
      usual_(static_cast<size_t>(ranks)),
      healthy_(static_cast<size_t>(ranks)) {}

void Channel::Measure(PeerResiduals& peers, absl::Span<const double> values) {
  peers.Compute(values, slow_, absl::MakeSpan(residuals_));
  for (size_t rank = 0; rank < usual_.size(); ++rank) {
    usual_[rank] = !slow_[rank] && !peers.among_slow(static_cast<int>(rank));
  }
}

void Channel::Skip() { std::fill(residuals_.begin(), residuals_.end(), kNone); }

void Channel::Learn() {
  for (size_t rank = 0; rank < residuals_.size(); ++rank) {
    healthy_[rank] = usual_[rank] ? residuals_[rank] : kNone;
  }
  noise_.AddRow(healthy_);
  ++rows_;
  if (rows_ > 2 * kLevelRows && rows_ % kLevelRows != 0) return;
  for (size_t rank = 0; rank < residuals_.size(); ++rank) {
    healthy_[rank] = !usual_[rank] || std::isnan(residuals_[rank]) ? kNone : watches_[rank].level();
  }
  noise_.SetLevels(healthy_);
}

bool Channel::has_residual(int rank) const {
  return !std::isnan(residuals_[static_cast<size_t>(rank)]);
}

RankWatch::Change Channel::Update(int rank, WatchRow row) {
  const auto r = static_cast<size_t>(rank);
  row.residual = residuals_[r];
  row.usual = usual_[r];
  RankWatch& watch = watches_[r];
  const RankWatch::Change change = watch.Update(row, noise_.level(), options_);
  if (watch.ended_run() > 0) noise_.AddRun(watch.ended_run());
  slow_[r] = watch.state() != RankWatch::State::kHealthy;
  return change;
}

}  // namespace paceline
