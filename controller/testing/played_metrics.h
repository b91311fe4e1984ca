// The metrics of a cluster without a server, whose workers are played by the test.
#ifndef CONTROLLER_TESTING_PLAYED_METRICS_H_
#define CONTROLLER_TESTING_PLAYED_METRICS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/core/testing/played_job.h"
#include "controller/metrics.h"

namespace paceline {

class PlayedMetrics : public ::testing::Test {
 protected:
  void Apply(const Event& event, double at) {
    metrics_.ShowChanges(cluster_, cluster_.Step(event, At(at)), At(at));
  }
  void Refresh(double at) { Refresh(metrics_, at); }
  void Refresh(ControllerMetrics& metrics, double at) {
    for (const JobId& id : metrics.RefreshNodes(cluster_)) {
      metrics.RefreshJob(id, cluster_, stragglers_, At(at));
    }
  }

  static NodeFacts Facts(const std::string& name, int slots = 1) {
    NodeFacts facts;
    facts.name = NodeName(name);
    facts.uid = name;
    facts.slots = slots;
    facts.version = "1.0";
    return facts;
  }
  void Join(const std::vector<std::string>& names, double at = 0) {
    for (const std::string& name : names) Apply(NodeConnected{Facts(name), {}}, at);
  }

  // Each rank of the job is told of as `state`, at this step.
  void Tell(TrainerState state, double at, int64_t step = 0) {
    const std::vector<RankState> ranks = job().ranks;
    for (size_t r = 0; r < ranks.size(); ++r) {
      TrainerReport report = PlayedReport(job(), static_cast<int>(r), state);
      report.progress.step = step;
      if (state == TrainerState::kExited) report.exit = TrainerExit();
      Apply(NodeReported{ranks[r].place.node, {report}}, at);
    }
  }
  // Job 1, of two ranks, trains on two of the nodes.
  void Train(double at, JobRequest request = PlayedRequest()) {
    Apply(JobSubmitted{std::move(request)}, at);
    Tell(TrainerState::kRunning, at);
  }
  // Rank 0 has done a step.
  void AddStep(double total_s, double data_wait_s, int samples = 32, int tokens = 0) {
    v1::StepBatch batch;
    batch.mutable_id()->set_job_id("job-1");
    v1::StepRecord& record = *batch.add_records();
    record.set_total_ns(static_cast<int64_t>(1e9 * total_s));
    record.set_data_wait_ns(static_cast<int64_t>(1e9 * data_wait_s));
    record.set_forward_ns(record.total_ns() - record.data_wait_ns());
    record.set_samples(samples);
    record.set_tokens(tokens);
    metrics_.AddSteps(JobId("job-1"), batch);
  }

  const Job& job() const { return cluster_.jobs().at(JobId("job-1")); }

  std::string Text() { return metrics_.Text(4096); }
  // The value of a series as it is written, "" when there is none.
  std::string Value(const std::string& series) {
    for (const auto& line : absl::StrSplit(Text(), '\n')) {
      if (absl::StartsWith(line, absl::StrCat(series, " "))) {
        return std::string(line.substr(series.size() + 1));
      }
    }
    return "";
  }

  Cluster cluster_{Cluster::Options()};
  Stragglers stragglers_{StragglerOptions(), [](const auto&, const auto&) { return ""; },
                         [](const auto&, const auto&) { return ""; }};
  ControllerMetrics metrics_{"1.0"};
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_PLAYED_METRICS_H_
