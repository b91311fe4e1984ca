#include "controller/testing/played_metrics.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/core/testing/played_job.h"
#include "proto/worker.pb.h"

namespace paceline {

void PlayedMetrics::Apply(const Event& event, double at) {
  metrics_.ShowChanges(cluster_, cluster_.Step(event, At(at)), At(at));
}

void PlayedMetrics::Refresh(ControllerMetrics& metrics, double at) {
  for (const JobId& id : metrics.RefreshNodes(cluster_)) {
    metrics.RefreshJob(id, cluster_, stragglers_, At(at));
  }
}

NodeFacts PlayedMetrics::Facts(const std::string& name, int slots) {
  NodeFacts facts;
  facts.name = NodeName(name);
  facts.uid = name;
  facts.slots = slots;
  facts.version = "1.0";
  return facts;
}

void PlayedMetrics::Join(const std::vector<std::string>& names, double at) {
  for (const std::string& name : names) Apply(NodeConnected{Facts(name), {}}, at);
}

void PlayedMetrics::Tell(TrainerState state, double at, int64_t step) {
  const std::vector<RankState> ranks = job().ranks;
  for (size_t r = 0; r < ranks.size(); ++r) {
    TrainerReport report = PlayedReport(job(), static_cast<int>(r), state);
    report.progress.step = step;
    if (state == TrainerState::kExited) report.exit = TrainerExit();
    Apply(NodeReported{ranks[r].slot.node, {report}}, at);
  }
}

void PlayedMetrics::Train(double at, JobRequest request) {
  Apply(JobSubmitted{std::move(request)}, at);
  Tell(TrainerState::kRunning, at);
}

void PlayedMetrics::AddStep(double total_s, double data_wait_s, int samples, int tokens) {
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

std::string PlayedMetrics::Value(const std::string& series) {
  for (const auto& line : absl::StrSplit(Text(), '\n')) {
    if (absl::StartsWith(line, absl::StrCat(series, " "))) {
      return std::string(line.substr(series.size() + 1));
    }
  }
  return "";
}

}  // namespace paceline
