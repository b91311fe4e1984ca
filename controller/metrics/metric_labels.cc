#include "controller/metrics/metric_labels.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"
#include "proto/node.pb.h"
#include "proto/status.pb.h"

namespace paceline {

std::string LabelOf(JobState state) {
  return absl::AsciiStrToLower(
      v1::JobState_Name(static_cast<v1::JobState>(static_cast<int>(state) + 1)));
}

std::string LabelOf(NodeState state) {
  const std::string name =
      v1::NodeState_Name(static_cast<v1::NodeState>(static_cast<int>(state) + 1));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "NODE_"));
}

std::string LabelOf(FailureKind kind) {
  if (kind == FailureKind::kNone) return "none";
  const std::string name = v1::FailureKind_Name(static_cast<v1::FailureKind>(kind));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "FAILURE_"));
}

std::string PhaseLabel(int phase) {
  return absl::AsciiStrToLower(v1::Phase_Name(static_cast<v1::Phase>(phase)));
}

std::string LabelOf(VerdictKind kind) {
  constexpr const char* kNames[] = {"suspect",   "transient", "persistent",
                                    "recovered", "node",      "group"};
  return kNames[static_cast<int>(kind)];
}

std::string LabelOf(StragglerCause cause) {
  constexpr const char* kNames[] = {"compute", "data", "host_pause", "communication", "imbalance"};
  return kNames[static_cast<int>(cause)];
}

std::string LabelOf(RemedyKind kind) { return absl::AsciiStrToLower(NameOf(kind)); }

std::string LabelOf(DecisionState state) { return absl::AsciiStrToLower(NameOf(state)); }

std::string StrategyLabel(const JobRequest& request) {
  v1::Strategy strategy;
  strategy.ParseFromString(request.strategy_spec);
  const auto* kind = v1::Strategy::descriptor()->FindOneofByName("kind");
  const auto* set = strategy.GetReflection()->GetOneofFieldDescriptor(strategy, kind);
  return set == nullptr ? "ddp" : set->name();
}

}  // namespace paceline
