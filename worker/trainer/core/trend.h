// Detects growth: the slope of a least-squares line through the latest points.
#ifndef WORKER_TRAINER_CORE_TREND_H_
#define WORKER_TRAINER_CORE_TREND_H_

#include <cstddef>
#include <deque>
#include <utility>

namespace paceline {

// Thread-compatible.
class Trend {
 public:
  // Uses the latest `points` points; at least 2.
  explicit Trend(size_t points) : limit_(points) {}

  void Add(double x, double y);

  // Change of y per unit of x; 0 with fewer than two different x.
  double Slope() const;

 private:
  const size_t limit_;
  std::deque<std::pair<double, double>> points_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_TREND_H_
