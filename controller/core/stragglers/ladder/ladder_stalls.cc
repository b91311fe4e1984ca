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
    : ranks_(ranks),
      enough_((ranks * 19 + 19) / 20),
      slots_(static_cast<size_t>(LadderWindow(ranks))),
      times_(slots_.size() * static_cast<size_t>(ranks), -1.0F) {}

bool LadderStalls::IsComplete(const Slot& slot) const {
  return slot.step >= 0 && !slot.masked && slot.present >= enough_;
}

float* LadderStalls::RowOf(const Slot* slot) {
  return times_.data() + static_cast<size_t>(slot - slots_.data()) * static_cast<size_t>(ranks_);
}

LadderStalls::Slot* LadderStalls::Open(int64_t step) {
  if (step < 0) return nullptr;
  Slot* slot = &slots_[static_cast<size_t>(step) % slots_.size()];
  if (slot->step == step) return slot;
  // A step more than a window ahead is nonsense from some rank, unless others reach it too: it does
  // not keep a real step away.
  const bool plausible = slot->step <= newest_ + static_cast<int64_t>(slots_.size());
  if (step < slot->step && plausible) return nullptr;
  *slot = {step, 0, false};
  std::fill_n(RowOf(slot), ranks_, -1.0F);
  return slot;
}

void LadderStalls::Add(int rank, int64_t step, double own_s) {
  Slot* const slot = rank >= 0 && rank < ranks_ && own_s >= 0 && own_s <= kMaxOwnS  // No NaN.
                         ? Open(step)
                         : nullptr;
  if (slot == nullptr || RowOf(slot)[rank] >= 0) {
    ++refused_;
    return;
  }
  RowOf(slot)[rank] = static_cast<float>(own_s);
  ++slot->present;
  if (IsComplete(*slot)) newest_ = std::max(newest_, step);
}

void LadderStalls::Mask(int64_t step) {
  if (Slot* slot = Open(step)) slot->masked = true;
}

OwnTimes LadderStalls::Take() const {
  std::vector<const Slot*> complete;
  for (const Slot& slot : slots_) {
    if (IsComplete(slot)) complete.push_back(&slot);
  }
  std::sort(complete.begin(), complete.end(),
            [](const Slot* a, const Slot* b) { return a->step < b->step; });
  OwnTimes times;
  times.ranks = ranks_;
  times.steps = static_cast<int>(complete.size());
  times.seconds.reserve(complete.size() * static_cast<size_t>(ranks_));
  std::vector<float> told;
  for (const Slot* slot : complete) {
    const auto row = times_.begin() + (slot - slots_.data()) * ranks_;
    times.seconds.insert(times.seconds.end(), row, row + ranks_);
    if (slot->present == ranks_) continue;
    told.clear();
    std::copy_if(row, row + ranks_, std::back_inserter(told), [](float s) { return s >= 0; });
    std::replace_if(
        times.seconds.end() - ranks_, times.seconds.end(), [](float s) { return s < 0; },
        Median(told));
  }
  return times;
}

}  // namespace paceline
