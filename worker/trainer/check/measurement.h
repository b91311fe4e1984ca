// One measurement of the probe, and its output format: a line of JSON.
#ifndef WORKER_TRAINER_CHECK_MEASUREMENT_H_
#define WORKER_TRAINER_CHECK_MEASUREMENT_H_

#include <string>
#include <vector>

namespace paceline {

struct Measurement {
  std::string name;  // "gemm"; names of error counts end in "_errors".
  double value = 0;
  std::string unit;
  bool more_is_better = false;
};

// The median; of an even number, the greater of the middle two. Requires: not empty.
double Median(std::vector<double> values);

// {"name": .., "value": .., "unit": .., "more_is_better": ..}
std::string ToJson(const Measurement& measurement);
// {"error": ..}: what could not be measured, and why.
std::string ErrorToJson(const std::string& error);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_MEASUREMENT_H_
