#include "controller/core/node/node_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace paceline {
namespace {

std::optional<double> MedianOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

const Measurement* Find(const CheckResult& result, const std::string& name) {
  const auto found = std::find_if(result.measurements.begin(), result.measurements.end(),
                                  [&](const Measurement& m) { return m.name == name; });
  return found == result.measurements.end() ? nullptr : &*found;
}

std::optional<double> OwnMedian(const NodeChecks& own, const std::string& name) {
  std::vector<double> values;
  const auto earlier = own.earlier.find(name);
  if (earlier != own.earlier.end()) values.assign(earlier->second.begin(), earlier->second.end());
  const Measurement* last = own.result.has_value() ? Find(*own.result, name) : nullptr;
  if (last != nullptr) values.push_back(last->value);
  return MedianOf(std::move(values));
}

std::optional<double> PeerMedian(const std::vector<const CheckResult*>& peers,
                                 const std::string& name) {
  std::vector<double> values;
  for (const CheckResult* peer : peers) {
    const Measurement* measured = Find(*peer, name);
    if (measured != nullptr) values.push_back(measured->value);
  }
  return MedianOf(std::move(values));
}

bool IsWorse(const Measurement& measurement, std::optional<double> median) {
  if (!median.has_value()) return true;  // Then only the other median decides.
  return measurement.more_is_better ? measurement.value < (1 - kCheckTolerance) * *median
                                    : measurement.value > (1 + kCheckTolerance) * *median;
}

}  // namespace

bool IsCircumstance(const Measurement& measurement) {
  return measurement.name == "trainers_beside";
}

bool CountsErrors(const Measurement& measurement) {
  return absl::EndsWith(measurement.name, "_errors");
}

void Judge(CheckResult& result, const NodeChecks& own,
           const std::vector<const CheckResult*>& peers) {
  for (Measurement& measurement : result.measurements) {
    measurement.own_median = OwnMedian(own, measurement.name);
    measurement.peer_median = PeerMedian(peers, measurement.name);
    if (CountsErrors(measurement)) {
      measurement.bad = measurement.value > 0;
      continue;
    }
    if (IsCircumstance(measurement)) continue;
    const bool comparable =
        measurement.own_median.has_value() || measurement.peer_median.has_value();
    measurement.bad = comparable && IsWorse(measurement, measurement.own_median) &&
                      IsWorse(measurement, measurement.peer_median);
  }
}

bool TakeCheckResult(NodeChecks& checks, CheckResult result) {
  if (!checks.running || result.id != checks.asked) return false;
  if (checks.result.has_value()) {
    for (const Measurement& measurement : checks.result->measurements) {
      std::deque<double>& values = checks.earlier[measurement.name];
      values.push_back(measurement.value);
      if (values.size() > kMeasurementsKept) values.pop_front();
    }
  }
  checks.running = false;
  result.peer = checks.peer;
  checks.result = std::move(result);
  return true;
}

}  // namespace paceline
