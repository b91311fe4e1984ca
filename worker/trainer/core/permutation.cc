#include "worker/trainer/core/permutation.h"

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
  // A walk that begins below size_ returns there, at the latest to where it began.
  do {
    value = Shuffle(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace paceline
