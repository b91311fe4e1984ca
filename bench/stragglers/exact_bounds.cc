#include "bench/stragglers/exact_bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace paceline::detect {
namespace {

constexpr double kTwoSidedTail = 0.025;
constexpr double kOneSidedTail = 0.05;
constexpr int kTerms = 100000;
constexpr double kPrecision = 1e-14;
constexpr int kHalvings = 200;

// The factor of the incomplete beta integral that is a continued fraction, by Lentz's method
// (Abramowitz and Stegun, 26.5.8).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto nonzero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double product = d;
  for (int m = 1; m < kTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    product *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    product *= d * c;
    if (std::abs(d * c - 1) < kPrecision) break;
  }
  return product;
}

// Regularised incomplete beta function I_x(a, b).
double Beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// Probability of at most `events` events if `mean` are expected.
double PoissonCdf(int64_t events, double mean) {
  double term = std::exp(static_cast<double>(events) * std::log(mean) - mean -
                         std::lgamma(static_cast<double>(events) + 1));
  double sum = 0;
  for (int64_t k = events; k >= 0 && term > sum * kPrecision; --k) {
    sum += term;
    term *= static_cast<double>(k) / mean;
  }
  return sum;
}

// The argument between `low` and `high` at which `rising` reaches `level`.
double Solve(const std::function<double(double)>& rising, double level, double low, double high) {
  for (int i = 0; i < kHalvings && low < high; ++i) {
    const double middle = (low + high) / 2;
    (rising(middle) < level ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

Interval ClopperPearson(int64_t successes, int64_t trials) {
  Interval interval;
  const auto k = static_cast<double>(successes);
  const auto n = static_cast<double>(trials);
  if (successes > 0) {
    interval.low = Solve([&](double p) { return Beta(k, n - k + 1, p); }, kTwoSidedTail, 0, 1);
  }
  if (successes < trials) {
    interval.high = Solve([&](double p) { return Beta(k + 1, n - k, p); }, 1 - kTwoSidedTail, 0, 1);
  }
  return interval;
}

double PoissonUpper(int64_t events) {
  const auto k = static_cast<double>(events);
  return Solve([&](double mean) { return -PoissonCdf(events, mean); }, -kOneSidedTail,
               std::max(k, 1e-9), k + 10 + 10 * std::sqrt(k + 1));
}

}  // namespace paceline::detect
