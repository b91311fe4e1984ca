// Judges what a node has measured of itself, against its own earlier checks and against its peers.
//
// A measurement is bad when it is worse, by more than a fifth, than each median that it can be
// compared with; and a count of errors when it is not 0. One that only it has, or the first of all,
// is not judged.
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

// How much worse than a median is bad.
inline constexpr double kCheckTolerance = 0.2;
// So many earlier values of each measurement are kept.
inline constexpr size_t kMeasurementsKept = 20;
// A check that has told nothing for so long may be asked for again.
inline constexpr absl::Duration kCheckPatience = absl::Minutes(10);

// proto/node.proto, NodeMeasurement.
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
  std::string peer;   // Node that the network was measured with; empty: none.
};

// What a node is told.
struct CheckOrder {
  int64_t id = 0;
  std::string peer_address;  // To measure the network to; empty: none.
};

// A node's checks.
struct NodeChecks {
  int64_t asked = 0;  // Id of the newest one; 0: none yet.
  bool running = false;
  absl::Time begun;  // Wall; of the newest one.
  std::string peer;  // Of the newest one: the node to measure the network to.
  std::string peer_address;
  std::optional<CheckResult> result;  // The newest there is.
  // By name of the measurement, oldest first; without the newest result.
  std::map<std::string, std::deque<double>> earlier;
};

// Fills in medians and verdicts. `peers`: the newest results of nodes of the same hardware.
void Judge(CheckResult& result, const NodeChecks& own,
           const std::vector<const CheckResult*>& peers);

// Takes in a result of the check that runs; false if it is another's. The one before becomes
// history. The result must have been judged.
bool TakeCheckResult(NodeChecks& checks, CheckResult result);

// Whether a measurement counts errors, so that any is a fault: its name ends in "_errors".
bool CountsErrors(const Measurement& measurement);

// Whether a measurement only says under what circumstances the others were made: trainers that ran
// beside. It is never bad.
bool IsCircumstance(const Measurement& measurement);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_NODE_CHECK_H_
