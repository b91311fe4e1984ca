// The metrics of a cluster without a server; the test plays the workers.
#ifndef CONTROLLER_TESTING_PLAYED_METRICS_H_
#define CONTROLLER_TESTING_PLAYED_METRICS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/core/testing/played_job.h"
#include "controller/metrics/metrics.h"

namespace paceline {

class PlayedMetrics : public ::testing::Test {
 protected:
  void Apply(const Event& event, double at);
  void Refresh(double at) { Refresh(metrics_, at); }
  void Refresh(ControllerMetrics& metrics, double at);

  static NodeFacts Facts(const std::string& name, int slots = 1);
  void Join(const std::vector<std::string>& names, double at = 0);

  // Reports each rank of the job in `state`, at this step.
  void Tell(TrainerState state, double at, int64_t step = 0);
  // Lets job 1, with two ranks, train on two of the nodes.
  void Train(double at, JobRequest request = PlayedRequest());
  // Adds a step of rank 0.
  void AddStep(double total_s, double data_wait_s, int samples = 32, int tokens = 0);

  const Job& job() const { return cluster_.jobs().at(JobId("job-1")); }

  std::string Text() { return metrics_.Text(4096); }
  // Value of a series as text; "": there is none.
  std::string Value(const std::string& series);

  Cluster cluster_{Cluster::Options()};
  Stragglers stragglers_{StragglerOptions(), [](const auto&, const auto&) { return ""; },
                         [](const auto&, const auto&) { return ""; }};
  ControllerMetrics metrics_{"1.0"};
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_PLAYED_METRICS_H_
