#include "controller/core/steps/curve.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

void Take(double value, CurvePoint& point) {
  if (!std::isfinite(value)) {
    ++point.not_finite;
    return;
  }
  point.least = point.values == 0 ? value : std::min(point.least, value);
  point.most = point.values == 0 ? value : std::max(point.most, value);
  point.sum += value;
  ++point.values;
}

// Adds the values of `later` to `point`.
void Merge(const CurvePoint& later, CurvePoint& point) {
  point.step = later.step;
  point.not_finite += later.not_finite;
  if (later.values == 0) return;
  point.least = point.values == 0 ? later.least : std::min(point.least, later.least);
  point.most = point.values == 0 ? later.most : std::max(point.most, later.most);
  point.sum += later.sum;
  point.values += later.values;
}

}  // namespace

void Curve::Add(int64_t step, double value) {
  if (step <= 0 || (!points_.empty() && points_.back().step == step)) return;
  while (!points_.empty() && PlaceOf(points_.back().step) > PlaceOf(step)) points_.pop_back();
  while (points_.empty() || PlaceOf(points_.back().step) < PlaceOf(step)) {
    if (points_.size() < kCurvePoints) {
      points_.emplace_back().step = step;
    } else {
      Widen();
    }
  }
  points_.back().step = step;
  Take(value, points_.back());
}

void Curve::Widen() {
  ++shift_;
  size_t kept = 0;  // Points that are merged already.
  for (const CurvePoint& point : points_) {
    if (kept > 0 && PlaceOf(points_[kept - 1].step) == PlaceOf(point.step)) {
      Merge(point, points_[kept - 1]);
    } else {
      points_[kept++] = point;
    }
  }
  points_.resize(kept);
}

}  // namespace paceline
