// Judges what a node has measured of itself against its own earlier checks and against its peers.
//
// A measurement is bad if it is more than a fifth worse than each median that it can be compared
// with. A count of errors is bad if it is not 0. A measurement without any median is not judged.
#ifndef CONTROLLER_CORE_NODE_NODE_CHECK_H_
#define CONTROLLER_CORE_NODE_NODE_CHECK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace paceline {

// How much worse than a median is bad, as a fraction of the median.
inline constexpr double kCheckTolerance = 0.2;
// How many earlier values of each measurement are kept.
inline constexpr size_t kMeasurementsKept = 20;
// A check without a result for this long may be asked for again.
inline constexpr absl::Duration kCheckPatience = absl::Minutes(10);

// As NodeMeasurement in proto/node.proto.
struct Measurement {
  std::string name;
  double value = 0;
  std::string unit;
  bool more_is_better = false;
  std::optional<double> own_median = {};
  std::optional<double> peer_median = {};
  bool bad = false;
};

struct CheckResult {
  int64_t id = 0;
  absl::Time time;  // Wall.
  std::vector<Measurement> measurements;
  std::string error;  // What could not be measured, and why.
  std::string peer;   // The node that the network was measured with; empty: none.
};

// The order that a node gets.
struct CheckOrder {
  int64_t id = 0;
  std::string peer_address;  // Where to measure the network to; empty: nowhere.
};

// A node's checks.
struct NodeChecks {
  int64_t asked = 0;  // Id of the newest order; 0: none yet.
  bool running = false;
  absl::Time begun;  // Wall; when the newest one began.
  std::string peer;  // The node that the newest check measures the network to.
  std::string peer_address;
  std::optional<CheckResult> result;  // The newest result.
  // By name of the measurement, oldest first; without those of the newest result.
  std::map<std::string, std::deque<double>> earlier;
};

// Fills in medians and verdicts. `peers`: the newest results of nodes with the same hardware.
void Judge(CheckResult& result, const NodeChecks& own,
           const std::vector<const CheckResult*>& peers);

// Takes in the result of the running check, which must have been judged; the one before becomes
// history. Returns false for the result of any other check.
bool TakeCheckResult(NodeChecks& checks, CheckResult result);

// Whether a measurement counts errors, each of which is a fault: its name ends in "_errors".
bool CountsErrors(const Measurement& measurement);

// Whether a measurement only describes the circumstances of the others, such as trainers that ran
// beside the check. It is never bad.
bool IsCircumstance(const Measurement& measurement);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_NODE_CHECK_H_
