// Bayesian online detection of change points in one series (R. Adams, D. MacKay, "Bayesian online
// changepoint detection", 2007), values normal with unknown mean and variance.
//
// The probability that the run began just now equals the hazard at every step, whatever the data,
// because both branches share the predictive term. So the mass on all short runs is used.
//
// Thread-compatible.
#ifndef BENCH_STRAGGLERS_CHANGE_POINTS_H_
#define BENCH_STRAGGLERS_CHANGE_POINTS_H_

#include <deque>
#include <vector>

namespace paceline::detect {

class ChangePoints {
 public:
  struct Options {
    double hazard = 1.0 / 250;
    double probability = 0.9;  // Mass on short runs above which there was a change.
    int short_run = 10;
    int least_run = 5;        // Values to wait for after a change.
    double least_change = 0;  // Least difference of the means' logarithms.
  };

  explicit ChangePoints(const Options& options) : options_(options) {}

  // Takes the next value, a logarithm. Returns whether the level has risen, once per change.
  bool Add(double value);

 private:
  struct Run {
    double probability = 0;
    double mean = 0;
    double spread = 0;  // Beta of the normal-inverse-gamma distribution.
    int length = 0;
  };

  void Begin();
  double Predict(const Run& run, double value) const;
  bool Rose(int run) const;

  const Options options_;
  std::deque<double> recent_;
  Run prior_;
  std::vector<Run> runs_;
  int quiet_ = 0;  // Values until the next change may be reported.
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_CHANGE_POINTS_H_
