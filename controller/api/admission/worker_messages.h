// Makes a worker's messages fit to be processed: limits their sizes and turns them into core's
// events.
//
// A worker is trusted about its node, but not about sizes. Texts that are too long are cut, and
// entries beyond a limit dropped, since one trainer's nonsense must not cost its node the
// connection. A hello that names an impossible node is refused.
//
// Pure.
#ifndef CONTROLLER_API_ADMISSION_WORKER_MESSAGES_H_
#define CONTROLLER_API_ADMISSION_WORKER_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/core/ids.h"
#include "controller/core/node/node_events.h"
#include "controller/core/stragglers/job/step_times.h"
#include "proto/worker.pb.h"

namespace paceline {

inline constexpr int kMaxNodeSlots = 4096;   // The most ranks of a job: each is an entry in lists.
inline constexpr int kMaxNodeGpus = 256;     // The largest machines have 16.
inline constexpr int kMaxNodeLabels = 64;    // As for a job.
inline constexpr size_t kMaxNodeText = 256;  // Names, addresses, labels.
inline constexpr size_t kMaxReportText = 4096;     // Messages and paths; as PATH_MAX.
inline constexpr size_t kMaxLogTail = 16 << 10;    // Workers send 8 KiB.
inline constexpr size_t kMaxLogPart = 64 << 10;    // What workers send at once, for readers.
inline constexpr int kMaxTrainersReported = 8192;  // Two generations of a full node.
inline constexpr int kMaxStepsReported = 16384;    // Per message; workers send about 4096.
inline constexpr int kMaxTasksReported = 4096;     // Checkpoint tasks; each is compared with jobs.
inline constexpr int kMaxLevelsReported = 64;      // Group sizes of one job's ladder.
inline constexpr int kMaxNumbersReported = 32;     // Of a session's script; as run.report allows.
inline constexpr size_t kMaxNumberName = 64;
inline constexpr size_t kMaxArtifactText = 1024;  // Paths and errors; names are as of numbers.

// The same rule as for a principal's name.
bool IsNodeName(absl::string_view name);

// InvalidArgument for a node with an impossible name, slots, GPUs or labels, or with a text too
// long.
absl::Status CheckHello(const v1::Hello& hello);

// Cuts what exceeds the limits.
void LimitReport(v1::NodeReport* report);

// The same for any message. Call it before looking at the message's entries.
void LimitMessage(v1::WorkerMessage* message);

// Number of step records in a message. A message with more than kMaxStepsReported is refused; none
// is dropped silently.
int64_t StepsIn(const v1::NodeSteps& steps);

// What reading the message costs, in messages: one with many steps counts as many.
double CostOf(const v1::WorkerMessage& message);

// Makes the event for a hello and report that are within the limits.
NodeConnected ConnectedBy(const v1::Hello& hello);
NodeReported ReportedBy(const NodeName& node, const v1::NodeReport& report);

// Step times as reported; IsPlausible checks them.
std::vector<StepTimes> StepsOf(const v1::StepBatch& batch);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_WORKER_MESSAGES_H_
