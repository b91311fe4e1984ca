// Label values of our enumerations, in lower case, as in the CLI.
#ifndef CONTROLLER_METRICS_METRIC_LABELS_H_
#define CONTROLLER_METRICS_METRIC_LABELS_H_

#include <string>

#include "controller/core/job/job.h"
#include "controller/core/node/node.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

inline constexpr int kJobStates = static_cast<int>(JobState::kRecovering) + 1;
inline constexpr int kNodeStates = static_cast<int>(NodeState::kLost) + 1;
inline constexpr int kFailureKinds = static_cast<int>(FailureKind::kRestore) + 1;
inline constexpr int kVerdictKinds = static_cast<int>(VerdictKind::kGroup) + 1;

// "recovering", "unreachable", "out_of_memory" ("none" for kNone).
std::string LabelOf(JobState state);
std::string LabelOf(NodeState state);
std::string LabelOf(FailureKind kind);
// `phase`: number of a paceline.v1.Phase.
std::string PhaseLabel(int phase);
// "persistent", "host_pause", "hot_swap", "did_not_help".
std::string LabelOf(VerdictKind kind);
std::string LabelOf(StragglerCause cause);
std::string LabelOf(RemedyKind kind);
std::string LabelOf(DecisionState state);
// "hsgd", from the job's serialized strategy; "ddp" if it names none.
std::string StrategyLabel(const JobRequest& request);

}  // namespace paceline

#endif  // CONTROLLER_METRICS_METRIC_LABELS_H_
