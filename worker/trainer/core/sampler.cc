#include "worker/trainer/core/sampler.h"

#include <cstddef>

namespace paceline {
namespace {

// The finalizer of splitmix64: every input bit changes about half of the output bits.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30u)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27u)) * 0x94d049bb133111eb;
  return x ^ (x >> 31u);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)), half_bits_(1) {
  while (half_bits_ < 31 && (uint64_t{1} << (2u * half_bits_)) < size_) ++half_bits_;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  uint64_t key = Mix(Mix(seed) ^ epoch);
  for (uint64_t& round_key : keys_) round_key = key = Mix(key);
}

uint64_t Permutation::Shuffle(uint64_t value) const {
  uint64_t left = value >> half_bits_;
  uint64_t right = value & half_mask_;
  for (uint64_t key : keys_) {
    const uint64_t next = left ^ (Mix(right ^ key) & half_mask_);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Permutation::At(int64_t position) const {
  uint64_t value = static_cast<uint64_t>(position);
  // A cycle of the network that begins below size_ comes back there at the latest where it began.
  do {
    value = Shuffle(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

int64_t Sampler::StepsPerEpoch(const Options& options) {
  return options.samples / options.batch / options.world_size;
}

void Sampler::Batch(int64_t step, std::vector<int64_t>* indices) const {
  const int64_t steps_per_epoch = StepsPerEpoch(options_);
  const int64_t epoch = step / steps_per_epoch;
  const int64_t world = options_.world_size;
  int64_t position = step % steps_per_epoch * options_.batch * world + options_.rank;
  indices->resize(static_cast<size_t>(options_.batch));
  const Permutation permutation(options_.samples, options_.seed, static_cast<uint64_t>(epoch));
  for (int64_t& index : *indices) {
    index = options_.shuffle ? permutation.At(position) : position;
    position += world;
  }
}

}  // namespace paceline
