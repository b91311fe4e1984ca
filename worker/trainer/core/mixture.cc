#include "worker/trainer/core/mixture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "worker/trainer/core/permutation.h"

namespace paceline {
namespace {

// Keeps the order of the blocks apart from that of the first source, which has the job's seed.
constexpr uint64_t kBlocksSeed = 0x6d69787475726573;
constexpr uint64_t kSourceStep = 0x9e3779b97f4a7c15;

}  // namespace

Mixture::Mixture(const std::vector<Source>& sources) : sources_(sources), firsts_{0} {
  double sum = 0;
  for (const Source& source : sources_) sum += source.weight;
  for (const Source& source : sources_) {
    const double share = source.weight / sum * static_cast<double>(kShares);
    shares_.push_back(std::max<int64_t>(std::llround(share), 1));
    firsts_.push_back(firsts_.back() + source.samples);
  }
  rests_ = shares_;
  for (size_t i = rests_.size() - 1; i > 0; --i) rests_[i - 1] += rests_[i];
}

int64_t Mixture::Quota(size_t source, int64_t count) const {
  const int64_t share = shares_[source];
  const int64_t rest = rests_[source];
  // count * share / rest, to the nearest, without overflow: rest is about kShares at most. It grows
  // by 0 or 1 with each position, and the last source takes all.
  return count / rest * share + (count % rest * share + rest / 2) / rest;
}

std::vector<int64_t> Mixture::Quotas(int64_t position) const {
  std::vector<int64_t> quotas;
  quotas.reserve(shares_.size());
  int64_t left = position;
  for (size_t i = 0; i < shares_.size(); ++i) {
    quotas.push_back(Quota(i, left));
    left -= quotas.back();
  }
  return quotas;
}

int Mixture::SourceAt(int64_t position) const {
  int64_t left = position;
  size_t source = 0;
  for (; source + 1 < shares_.size(); ++source) {
    const int64_t before = Quota(source, left);
    if (Quota(source, left + 1) > before) break;
    left -= before;
  }
  return static_cast<int>(source);
}

std::array<Mixture::Taken, Mixture::kBlock> Mixture::Block(int64_t block, uint64_t seed) const {
  const Permutation places(kBlock, seed ^ kBlocksSeed, static_cast<uint64_t>(block));
  std::vector<int64_t> next = Quotas(block * kBlock);
  std::array<Taken, kBlock> taken;
  for (int64_t offset = 0; offset < kBlock; ++offset) {
    const int source = SourceAt(block * kBlock + places.At(offset));
    taken[static_cast<size_t>(offset)] = {source, next[static_cast<size_t>(source)]++};
  }
  return taken;
}

std::vector<int64_t> Mixture::TakenBefore(int64_t position, uint64_t seed) const {
  const int64_t block = position / kBlock;
  const int64_t within = position % kBlock;
  const Permutation places(kBlock, seed ^ kBlocksSeed, static_cast<uint64_t>(block));
  std::vector<int64_t> before = Quotas(block * kBlock);
  for (int64_t offset = 0; offset < within; ++offset) {
    ++before[static_cast<size_t>(SourceAt(block * kBlock + places.At(offset)))];
  }
  return before;
}

int64_t Mixture::IndexOf(const Taken& taken, bool shuffle, uint64_t seed) const {
  const int64_t samples = sources_[static_cast<size_t>(taken.source)].samples;
  const int64_t place = taken.number % samples;
  if (!shuffle) return FirstOf(taken.source) + place;
  const auto epoch = static_cast<uint64_t>(taken.number / samples);
  const Permutation order(samples, SeedOf(taken.source, seed), epoch);
  return FirstOf(taken.source) + order.At(place);
}

int Mixture::SourceOf(int64_t index) const {
  const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), index);
  return static_cast<int>(behind - firsts_.begin()) - 1;
}

uint64_t Mixture::SeedOf(int source, uint64_t seed) {
  return seed + static_cast<uint64_t>(source) * kSourceStep;
}

}  // namespace paceline
