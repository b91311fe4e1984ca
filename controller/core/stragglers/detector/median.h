// The median of a few or many values, in linear time and in place.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_MEDIAN_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_MEDIAN_H_

#include <algorithm>

#include "absl/types/span.h"

namespace paceline {

// For an even number, the mean of the middle two. Reorders the values. Requires: there are values.
template <typename T>
T MedianOf(absl::Span<T> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_MEDIAN_H_
