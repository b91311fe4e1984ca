#include "controller/core/stragglers/ladder/ladder_stalls.h"

#include <algorithm>
#include <numeric>

namespace paceline {
namespace {

constexpr int kMaxSteps = 1024;
constexpr int kMinSteps = 192;
constexpr int kMaxValues = 1 << 19;
// How many values, evenly spread, a median is computed from.
constexpr size_t kSampled = 16384;
constexpr size_t kSampledOfRank = 64;

float Median(std::vector<float>& values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

float MedianOfAll(const OwnTimes& times) {
  size_t stride = (times.seconds.size() + kSampled - 1) / kSampled;
  // Otherwise only some ranks would be sampled.
  while (std::gcd(stride, static_cast<size_t>(times.ranks)) > 1) ++stride;
  std::vector<float> sampled;
  for (size_t i = 0; i < times.seconds.size(); i += stride) sampled.push_back(times.seconds[i]);
  return Median(sampled);
}

float MedianOfRank(const OwnTimes& times, size_t rank, std::vector<float>& sampled) {
  const auto steps = static_cast<size_t>(times.steps);
  const size_t stride = (steps + kSampledOfRank - 1) / kSampledOfRank;
  sampled.clear();
  for (size_t step = 0; step < steps; step += stride) {
    sampled.push_back(times.seconds[step * static_cast<size_t>(times.ranks) + rank]);
  }
  return Median(sampled);
}

}  // namespace

int LadderWindow(int ranks) { return std::clamp(kMaxValues / ranks, kMinSteps, kMaxSteps); }

StallSummary SummarizeStalls(const OwnTimes& times) {
  StallSummary summary;
  summary.ranks = times.ranks;
  summary.steps = times.steps;
  summary.typical_s = MedianOfAll(times);
  const auto ranks = static_cast<size_t>(times.ranks);
  std::vector<float> medians(ranks);
  std::vector<float> sampled;
  for (size_t rank = 0; rank < ranks; ++rank) medians[rank] = MedianOfRank(times, rank, sampled);
  std::vector<double> sums(ranks, 0.0);
  int64_t stalls = 0;
  double stalled_s = 0;
  for (auto row = times.seconds.begin(); row != times.seconds.end(); row += times.ranks) {
    summary.synchronous_s += *std::max_element(row, row + times.ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const float own = row[static_cast<std::ptrdiff_t>(rank)];
      sums[rank] += own;
      if (own > kStall * medians[rank]) {
        ++stalls;
        stalled_s += own - medians[rank];
      }
    }
  }
  const auto slowest = std::max_element(sums.begin(), sums.end());
  summary.slowest_rank = static_cast<int>(slowest - sums.begin());
  summary.floor_s = *slowest / times.steps;
  summary.synchronous_s /= times.steps;
  summary.stall_share = static_cast<double>(stalls) / static_cast<double>(times.seconds.size());
  if (stalls > 0) summary.mean_stall_s = stalled_s / static_cast<double>(stalls);
  return summary;
}

LadderStalls::LadderStalls(int ranks)
    : ranks_(ranks), most_(static_cast<size_t>(LadderWindow(ranks)) * static_cast<size_t>(ranks)) {
  times_.reserve(most_);
}

void LadderStalls::Add(const std::vector<float>& own_s) {
  if (times_.size() < most_) {
    times_.insert(times_.end(), own_s.begin(), own_s.end());
    return;
  }
  std::copy(own_s.begin(), own_s.end(), times_.begin() + static_cast<std::ptrdiff_t>(oldest_));
  oldest_ = (oldest_ + own_s.size()) % most_;
}

OwnTimes LadderStalls::Take() const {
  OwnTimes times{ranks_, static_cast<int>(times_.size()) / ranks_, times_};
  std::rotate(times.seconds.begin(), times.seconds.begin() + static_cast<std::ptrdiff_t>(oldest_),
              times.seconds.end());
  return times;
}

}  // namespace paceline
