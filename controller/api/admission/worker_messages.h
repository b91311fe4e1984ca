// What a worker sends, made fit to be taken in: its sizes are bounded, and it becomes core's
// events.
//
// A worker is believed about its node, not about sizes: texts that are too long are cut, entries
// beyond a limit are left out, as one trainer's nonsense must not cost its node the connection. A
// hello that names an impossible node is refused.
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

inline constexpr int kMaxNodeSlots = 4096;   // The most ranks of a job: each is a place in lists.
inline constexpr int kMaxNodeGpus = 256;     // The largest machines have 16.
inline constexpr int kMaxNodeLabels = 64;    // As those of a job.
inline constexpr size_t kMaxNodeText = 256;  // Names, addresses, labels.
inline constexpr size_t kMaxReportText = 4096;   // Messages and paths; PATH_MAX.
inline constexpr size_t kMaxLogTail = 16 << 10;  // Workers send 8 KiB.
inline constexpr size_t kMaxLogPart = 64 << 10;  // What workers send at once; a reader gets it.
inline constexpr int kMaxTrainersTold = 8192;    // Two generations of a full node.
inline constexpr int kMaxStepsTold = 16384;      // In all; workers send some 4096 at once.
inline constexpr int kMaxTasksTold = 4096;       // Of checkpoint tasks; each is compared with jobs.
inline constexpr int kMaxLevelsTold = 64;        // Group sizes of one job's ladder.

// As a principal's name.
bool IsNodeName(absl::string_view name);

// InvalidArgument for what no node can be: its name, slots, GPUs, labels, or a text too long.
absl::Status CheckHello(const v1::Hello& hello);

// Cuts what is beyond the limits.
void LimitReport(v1::NodeReport* report);

// The same of any message. To be done before its entries are looked at one by one.
void LimitMessage(v1::WorkerMessage* message);

// Records of steps in it. A message with more than kMaxStepsTold is refused: none is left out
// unseen.
int64_t StepsIn(const v1::NodeSteps& steps);

// Of a hello and a report within the limits.
NodeConnected ConnectedBy(const v1::Hello& hello);
NodeReported ReportedBy(const NodeName& node, const v1::NodeReport& report);

// As they are told: IsPlausible says which can be.
std::vector<StepTimes> StepsOf(const v1::StepBatch& batch);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_WORKER_MESSAGES_H_
