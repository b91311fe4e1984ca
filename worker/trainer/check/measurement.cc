#include "worker/trainer/check/measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace paceline {
namespace {

std::string Line(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string ToJson(const Measurement& measurement) {
  return Line({{"name", measurement.name},
               {"value", measurement.value},
               {"unit", measurement.unit},
               {"more_is_better", measurement.more_is_better}});
}

std::string ErrorToJson(const std::string& error) { return Line({{"error", error}}); }

}  // namespace paceline
