#include "controller/core/stragglers/ladder/ladder_cost.h"

#include <algorithm>

namespace paceline {
namespace {

// Weight of a new measurement.
constexpr double kForgetting = 0.1;
constexpr double kMaxS = 3600;
// Bytes per second of the slowest network that trains: Ethernet with one gigabit per second.
constexpr double kSlowestNetwork = 1e8;

double Messages(int ranks) { return 2.0 * (ranks - 1); }
double Share(int ranks) { return Messages(ranks) / ranks; }

struct Fit {
  double latency = 0;
  double transfer = 0;
  double error = 0;

  double Of(int ranks) const { return latency * Messages(ranks) + transfer * Share(ranks); }
};

}  // namespace

void AllReduceCosts::Add(int ranks, double seconds, double sent_bytes) {
  if (ranks < 2 || !(seconds >= 0 && seconds <= kMaxS)) return;
  if (sent_bytes > 0) sent_bytes_ = sent_bytes;
  const auto [known, is_new] = measured_.emplace(ranks, seconds);
  if (!is_new) known->second += kForgetting * (seconds - known->second);
}

double AllReduceCosts::Of(int ranks) const {
  if (ranks < 2 || measured_.empty()) return 0;
  const auto same = measured_.find(ranks);
  if (same != measured_.end()) return same->second;
  if (measured_.size() == 1) {
    const auto& [known, seconds] = *measured_.begin();
    const double by_latency = Messages(ranks) / Messages(known);
    const double by_transfer = Share(ranks) / Share(known);
    const double transfer =
        sent_bytes_ > 0 ? std::min(seconds, sent_bytes_ / kSlowestNetwork) : seconds;
    return std::max(seconds * by_latency,
                    transfer * by_transfer + (seconds - transfer) * by_latency);
  }
  // Normal equations of x = messages / seconds and y = share / seconds, to bring latency x +
  // transfer y close to 1.
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const auto& [known, seconds] : measured_) {
    if (seconds <= 0) continue;
    const double x = Messages(known) / seconds;
    const double y = Share(known) / seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  if (xx == 0) return 0;
  const double determinant = xx * yy - xy * xy;
  Fit both;
  if (determinant > 1e-12 * xx * yy) {
    both.latency = (x1 * yy - y1 * xy) / determinant;
    both.transfer = (y1 * xx - x1 * xy) / determinant;
    if (both.latency >= 0 && both.transfer >= 0) return both.Of(ranks);
  }
  Fit latency, transfer;
  latency.latency = x1 / xx;
  transfer.transfer = y1 / yy;
  for (const auto& [known, seconds] : measured_) {
    if (seconds <= 0) continue;
    for (Fit* fit : {&latency, &transfer}) {
      const double error = fit->Of(known) / seconds - 1;
      fit->error += error * error;
    }
  }
  return (latency.error < transfer.error ? latency : transfer).Of(ranks);
}

}  // namespace paceline
