#include "controller/api/admission/worker_messages.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "common/core/utf8_prefix.h"
#include "common/identity/principal.h"
#include "controller/core/job/artifacts.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_checkpoint.h"
#include "controller/wire/convert_collectives.h"
#include "controller/wire/convert_node.h"

namespace paceline {
namespace {

constexpr double kStepsOfMessage = 50;  // Cost as much as a message.

// Not to be called on the mutable_x() of an unset message, which would create it.
void Cut(std::string* text, size_t size = kMaxReportText) {
  if (text->size() > size) text->resize(Utf8Prefix(*text, size).size());
}

template <typename Entries>
void KeepFirst(Entries* entries, int count) {
  if (entries->size() > count) entries->DeleteSubrange(count, entries->size() - count);
}

void LimitFigures(v1::RankFigures* figures) {
  KeepFirst(figures->mutable_levels(), kMaxLevelsReported);
  KeepFirst(figures->mutable_reported(), kMaxNumbersReported);
  for (v1::ReportedNumber& number : *figures->mutable_reported()) {
    Cut(number.mutable_name(), kMaxNumberName);
  }
}

void LimitArtifacts(google::protobuf::RepeatedPtrField<v1::Artifact>* artifacts) {
  KeepFirst(artifacts, static_cast<int>(kMostArtifacts));
  for (v1::Artifact& artifact : *artifacts) {
    Cut(artifact.mutable_name(), kMaxNumberName);
    Cut(artifact.mutable_path(), kMaxArtifactText);
    Cut(artifact.mutable_sha256(), kMaxNumberName);
    Cut(artifact.mutable_error(), kMaxArtifactText);
  }
}

void LimitTrainer(v1::TrainerReport* trainer) {
  if (trainer->has_id()) Cut(trainer->mutable_id()->mutable_job_id(), kMaxNodeText);
  Cut(trainer->mutable_store_address(), kMaxNodeText);
  if (!trainer->stacks_file().empty()) Cut(trainer->mutable_stacks_file());
  if (!trainer->standby().empty()) Cut(trainer->mutable_standby());
  if (trainer->has_collectives()) LimitCollectives(trainer->mutable_collectives());
  if (trainer->has_exit()) {
    Cut(trainer->mutable_exit()->mutable_message());
    Cut(trainer->mutable_exit()->mutable_log_tail(), kMaxLogTail);
  }
  if (trainer->has_plan()) Cut(trainer->mutable_plan()->mutable_error());
  if (trainer->has_figures()) LimitFigures(trainer->mutable_figures());
  if (trainer->has_profile()) {
    Cut(trainer->mutable_profile()->mutable_trace());
    Cut(trainer->mutable_profile()->mutable_memory());
    Cut(trainer->mutable_profile()->mutable_error());
  }
  for (v1::SaveStatus& save : *trainer->mutable_saves()) Cut(save.mutable_error());
  LimitArtifacts(trainer->mutable_artifacts());
  if (trainer->has_membership()) Cut(trainer->mutable_membership()->mutable_error());
}

void LimitCheck(v1::NodeCheckResult* check) {
  Cut(check->mutable_error());
  Cut(check->mutable_peer(), kMaxNodeText);
  for (v1::NodeMeasurement& measurement : *check->mutable_measurements()) {
    Cut(measurement.mutable_name(), kMaxNodeText);
    Cut(measurement.mutable_unit(), kMaxNodeText);
  }
}

// The reader asks again for what was cut, from the end of this part.
void LimitLog(v1::LogData* log) {
  Cut(log->mutable_error());
  if (log->data().size() <= kMaxLogPart) return;
  log->mutable_data()->resize(kMaxLogPart);
  log->set_end(false);
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a node has ", what));
}

}  // namespace

bool IsNodeName(absl::string_view name) { return IsPrincipalName(name); }

absl::Status CheckHello(const v1::Hello& hello) {
  if (!IsNodeName(hello.node())) {
    return absl::InvalidArgumentError("a node's name has 1 to 63 of [A-Za-z0-9-_.]");
  }
  if (hello.slots() > kMaxNodeSlots) {
    return Wrong(absl::StrCat("at most ", kMaxNodeSlots, " slots, not ", hello.slots()));
  }
  const int gpus = std::max(hello.hardware().gpus_size(), hello.hardware().gpu_memory_bytes_size());
  if (gpus > kMaxNodeGpus) {
    return Wrong(absl::StrCat("at most ", kMaxNodeGpus, " GPUs, not ", gpus));
  }
  if (static_cast<int>(hello.labels().size()) > kMaxNodeLabels) {
    return Wrong(absl::StrCat("at most ", kMaxNodeLabels, " labels, not ", hello.labels().size()));
  }
  bool fits = true;
  for (const std::string* text : {&hello.node_uid(), &hello.daemon_uid(), &hello.cluster_id(),
                                  &hello.address(), &hello.metrics_address(), &hello.version(),
                                  &hello.probe_address(), &hello.hardware().os()}) {
    fits = fits && text->size() <= kMaxNodeText;
  }
  for (const std::string& gpu : hello.hardware().gpus()) fits = fits && gpu.size() <= kMaxNodeText;
  for (const auto& [label, value] : hello.labels()) {
    fits = fits && label.size() <= kMaxNodeText && value.size() <= kMaxNodeText;
  }
  if (fits) return absl::OkStatus();
  return Wrong(
      absl::StrCat("addresses, names of GPUs and labels of at most ", kMaxNodeText, " bytes each"));
}

void LimitReport(v1::NodeReport* report) {
  KeepFirst(report->mutable_trainers(), kMaxTrainersReported);
  for (v1::TrainerReport& trainer : *report->mutable_trainers()) LimitTrainer(&trainer);
  KeepFirst(report->mutable_task_results(), kMaxTasksReported);
  for (v1::CheckpointTaskResult& result : *report->mutable_task_results()) {
    Cut(result.mutable_error());
    KeepFirst(result.mutable_found(), kMaxTasksReported);
  }
  if (report->has_check()) LimitCheck(report->mutable_check());
}

void LimitMessage(v1::WorkerMessage* message) {
  if (message->has_hello()) LimitReport(message->mutable_hello()->mutable_report());
  if (message->has_report()) LimitReport(message->mutable_report());
  if (message->has_steps())
    KeepFirst(message->mutable_steps()->mutable_batches(), kMaxTrainersReported);
  if (message->has_log()) LimitLog(message->mutable_log());
}

int64_t StepsIn(const v1::NodeSteps& steps) {
  int64_t records = 0;
  for (const v1::StepBatch& batch : steps.batches()) records += batch.records_size();
  return records;
}

double CostOf(const v1::WorkerMessage& message) {
  return 1 + static_cast<double>(StepsIn(message.steps())) / kStepsOfMessage;
}

NodeConnected ConnectedBy(const v1::Hello& hello) {
  return {FromProto(hello), FromProto(hello.report()), TaskResults(hello.report()),
          CheckOf(hello.report())};
}

NodeReported ReportedBy(const NodeName& node, const v1::NodeReport& report) {
  return {node, FromProto(report), TaskResults(report), CheckOf(report)};
}

std::vector<StepTimes> StepsOf(const v1::StepBatch& batch) {
  constexpr double kNanosecond = 1e-9;
  std::vector<StepTimes> steps;
  steps.reserve(static_cast<size_t>(batch.records_size()));
  for (const v1::StepRecord& record : batch.records()) {
    StepTimes& times = steps.emplace_back();
    times.step = record.step();
    times.data_wait_s = kNanosecond * static_cast<double>(record.data_wait_ns());
    times.forward_s = kNanosecond * static_cast<double>(record.forward_ns());
    times.backward_s = kNanosecond * static_cast<double>(record.backward_ns());
    times.communication_s = kNanosecond * static_cast<double>(record.communication_ns());
    times.averaging_s = kNanosecond * static_cast<double>(record.averaging_ns());
    times.averaging_ranks = record.averaging_group_size();
    times.round_wait_s = kNanosecond * static_cast<double>(record.round_wait_ns());
    times.total_s = kNanosecond * static_cast<double>(record.total_ns());
    times.sent_bytes = static_cast<double>(record.wire_bytes());
    times.workload = record.workload();
    times.masked = record.masked();
  }
  return steps;
}

}  // namespace paceline
