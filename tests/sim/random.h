// Random numbers of a seed that are the same on every machine: SplitMix64 (G. L. Steele, D. Lea,
// C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
//
// Thread-compatible.
#ifndef TESTS_SIM_RANDOM_H_
#define TESTS_SIM_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace paceline::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  bool Chance(double probability) { return Unit() < probability; }

  // Both ends included. Requires: low <= high.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }

  // Exponentially distributed with the given mean, like the times between independent events.
  int64_t Exponential(int64_t mean) {
    return static_cast<int64_t>(-std::log(1 - Unit()) * static_cast<double>(mean));
  }

  // A separate generator for a part of the history, so that additions to one part do not change
  // the others.
  Random Fork() { return Random(Next()); }

 private:
  uint64_t state_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_RANDOM_H_
