// Words about jobs, and about the states of ranks and nodes: how a job goes, starts again, changes
// its membership and its batch. Text that came from elsewhere is neutralised where it is used in a
// longer text here.
#ifndef CLI_VIEW_JOB_JOB_TEXT_H_
#define CLI_VIEW_JOB_JOB_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "cli/text/style.h"
#include "cli/text/told_once.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/status.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {

// "digits (job-0123456789ab)", neutralised.
std::string JobNameText(const v1::Job& job);

// SUCCEEDED, FAILED or CANCELLED.
bool HasEnded(v1::JobState state);

// "RUNNING"; a number that this program does not know: "state 12".
std::string StateText(v1::JobState state);
std::string StateText(v1::TrainerState state);  // "running"
std::string StateText(v1::NodeState state);     // "READY"
std::string PhaseText(v1::Phase phase);         // "data wait"
// "evaluating 120/400 batches", or as above.
std::string PhaseText(const v1::Progress& progress);
std::string PhaseText(const v1::RankTelemetry& rank);

Colour StateColour(v1::JobState state);
Colour StateColour(v1::NodeState state);

// "SIGKILL"; "signal 99" for one without a name.
std::string SignalText(int signal);

// How a trainer ended: "killed by SIGKILL", "exit code 42: it said why", "finished".
std::string ExitText(const v1::TrainerExit& exit);

// "resnet18", "mlp 128-64", "llama 160m", "torchscript"; of a command the name of its script or
// program: "train.py".
std::string ModelText(const v1::JobSpec& spec);

// "python3 train.py --width 512 in /home/ann/net".
std::string CommandText(const v1::JobSpec& spec);

// "12 files, 34.1 KiB".
std::string CodeText(const v1::Code& code);

// Whether steps of the job can be told: not of a command of which none was seen.
bool MakesSteps(const v1::Job& job);

// "12/400"; "12" of a job that does not say how many steps it makes; empty if MakesSteps is false.
// `of` stands between.
std::string StepsDoneText(const v1::Job& job, absl::string_view of = "/");

// Infinite past for a timestamp that is not set.
absl::Time TimeOf(bool set, const google::protobuf::Timestamp& timestamp);
// "last heard 42 s ago": of a rank whose node does not answer.
std::string LastHeardText(const google::protobuf::Timestamp& heard, absl::Time now);

// In local time, by a format of strftime; "-" for the infinite past. At most 31 bytes.
std::string LocalTimeText(absl::Time moment, const char* format);
inline constexpr char kDateAndTime[] = "%Y-%m-%d %H:%M:%S";

// "2026-11-21 08:05:00 (3 min 05 s ago)" in local time; "-" when not set.
std::string MomentText(absl::Time moment, absl::Time now);

// Seconds from start to end, or to `now` while it goes on; negative before the start.
double RunSeconds(const v1::Job& job, absl::Time now);

// Whether the latest evaluation has an accuracy, and is not of steps that were lost since.
bool HasAccuracy(const v1::Job& job);

// Steps that had been done when it started: those of the checkpoint that it goes on from, or 0.
int64_t StepsBefore(const v1::Job& job);

// "3 of 4 ranks" of a job that has shrunk; empty: it has all.
std::string FewerRanksText(const v1::Job& job);

// One row per change, oldest first; empty: there was none.
std::string ChangeTable(const v1::Job& job, absl::Time now, int width, bool colours,
                        ToldOnce* told = nullptr);

// "rank 1 on w0: ended by signal 9 (SIGKILL)", without the count of restarts that the controller
// may put before it; neutralised. Empty when it has not.
std::string RestartCause(const v1::Job& job);

// "1 of 3", or "1" without a limit of its own.
std::string RestartsOf(const v1::Job& job);

int64_t GlobalBatch(const v1::JobSpec& spec);

// What a resumption changes the global batch to, and which flags that `request` leaves out would
// keep it; empty when it stays as it was. `after`: the spec with the changes.
std::string BatchChangeText(const v1::JobSpec& before, const v1::JobSpec& after,
                            const v1::ResumeJobRequest& request);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_JOB_TEXT_H_
