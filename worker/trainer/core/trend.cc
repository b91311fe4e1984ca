#include "worker/trainer/core/trend.h"

namespace paceline {

void Trend::Add(double x, double y) {
  points_.emplace_back(x, y);
  if (points_.size() > limit_) points_.pop_front();
}

double Trend::Slope() const {
  if (points_.empty()) return 0;
  const auto count = static_cast<double>(points_.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const auto& [x, y] : points_) {
    mean_x += x / count;
    mean_y += y / count;
  }
  double covariance = 0;
  double variance = 0;
  for (const auto& [x, y] : points_) {
    covariance += (x - mean_x) * (y - mean_y);
    variance += (x - mean_x) * (x - mean_x);
  }
  return variance > 0 ? covariance / variance : 0;
}

}  // namespace paceline
