// Random numbers of a seed that are the same on every machine. The C++ standard fixes the engine's
// output but not that of its distributions, so these are written out here.
//
// Thread-compatible.
#ifndef BENCH_STRAGGLERS_RANDOM_H_
#define BENCH_STRAGGLERS_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <random>

namespace paceline::detect {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }

  // In [0, 1).
  double Unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  double Between(double low, double high) { return low + (high - low) * Unit(); }

  bool Chance(double probability) { return probability > 0 && Unit() < probability; }

  // Requires: end > 0.
  int Below(int end) { return static_cast<int>(Unit() * end); }

  // Both ends included.
  int64_t Integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Unit() * static_cast<double>(high - low + 1));
  }

  // Of mean 1.
  double Exponential() { return -std::log(1 - Unit()); }

  // Of mean 0 and variance 1 (G. Marsaglia's polar method).
  double Normal() {
    if (have_second_) {
      have_second_ = false;
      return second_;
    }
    double x = 0;
    double y = 0;
    double square = 0;
    do {
      x = Between(-1, 1);
      y = Between(-1, 1);
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double scale = std::sqrt(-2 * std::log(square) / square);
    second_ = y * scale;
    have_second_ = true;
    return x * scale;
  }

  // Number of independent events if `mean` are expected.
  int Poisson(double mean) {
    int count = 0;
    double left = mean - Exponential();
    while (left > 0) {
      ++count;
      left -= Exponential();
    }
    return count;
  }

 private:
  std::mt19937_64 engine_;
  bool have_second_ = false;
  double second_ = 0;
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_RANDOM_H_
