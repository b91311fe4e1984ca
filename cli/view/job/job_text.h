// Describes jobs, and the states of ranks and nodes: a job's progress, restarts, and changes of
// membership and batch. Text from elsewhere is sanitized where it becomes part of a longer text
// here.
#ifndef CLI_VIEW_JOB_JOB_TEXT_H_
#define CLI_VIEW_JOB_JOB_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "cli/text/reported_once.h"
#include "cli/text/style.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/status.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {

// "digits (job-0123456789ab)", sanitized.
std::string JobNameText(const v1::Job& job);

// SUCCEEDED, FAILED or CANCELLED.
bool HasEnded(v1::JobState state);

// "RUNNING"; "state 12" for a number that this program does not know.
std::string StateText(v1::JobState state);
std::string StateText(v1::TrainerState state);  // "running"
std::string StateText(v1::NodeState state);     // "READY"
std::string PhaseText(v1::Phase phase);         // "data wait"
// "evaluating 120/400 batches", or as above.
std::string PhaseText(const v1::Progress& progress);
std::string PhaseText(const v1::RankTelemetry& rank);

Colour StateColour(v1::JobState state);
Colour StateColour(v1::NodeState state);

// "SIGKILL"; "signal 99" for a signal without a name.
std::string SignalText(int signal);

// How a trainer ended: "killed by SIGKILL", "exit code 42: it said why", "finished".
std::string ExitText(const v1::TrainerExit& exit);

// "resnet18", "mlp 128-64", "llama 160m", "torchscript", "compiled"; for a command the name of its
// script or program: "train.py".
std::string ModelText(const v1::JobSpec& spec);

// "model=llama,nightly=,team=vision", by key.
std::string LabelsText(const v1::JobSpec& spec);

// "python3 train.py --width 512 in /home/ann/net".
std::string CommandText(const v1::JobSpec& spec);

// "12 files, 34.1 KiB".
std::string CodeText(const v1::Code& code);

// Whether the job's steps are known; not for a command that has reported none.
bool MakesSteps(const v1::Job& job);

// "12/400"; "12" for a job that does not say how many steps it makes; empty if MakesSteps is false.
// `of` separates the numbers.
std::string StepsDoneText(const v1::Job& job, absl::string_view of = "/");

// Infinite past if the timestamp is not set.
absl::Time TimeOf(bool set, const google::protobuf::Timestamp& timestamp);
// "last heard 42 s ago", for a rank whose node does not answer.
std::string LastHeardText(const google::protobuf::Timestamp& heard, absl::Time now);

// Local time in a strftime format; "-" for the infinite past. At most 31 bytes.
std::string LocalTimeText(absl::Time moment, const char* format);
inline constexpr char kDateAndTime[] = "%Y-%m-%d %H:%M:%S";

// "2026-11-21 08:05:00 (3 min 05 s ago)" in local time; "-" when not set.
std::string MomentText(absl::Time moment, absl::Time now);

// Seconds from the start to the end, or to `now` while the job runs; negative before the start.
double RunSeconds(const v1::Job& job, absl::Time now);

// Whether the latest evaluation has an accuracy, and its steps were not lost since.
bool HasAccuracy(const v1::Job& job);

// Steps completed before the start: those of the checkpoint that it started from, or 0.
int64_t StepsBefore(const v1::Job& job);

// "3 of 4 ranks" for a job that has shrunk, "6 ranks, 2 more than the 4 wanted" for one that has
// grown; empty: it has those that it wants.
std::string OtherRanksText(const v1::Job& job);

// Ranks that the job has; of one that has not been placed, those that it wants.
int RanksNow(const v1::Job& job);
// "4"; "3 of 4" for a job that has shrunk; "6 (2..8)" for an elastic one, with the fewest and the
// most that it may have.
std::string RanksText(const v1::Job& job);

// One row per change, oldest first; empty: there was none.
std::string ChangeTable(const v1::Job& job, absl::Time now, int width, bool colours,
                        ReportedOnce* reported = nullptr);

// "rank 1 on w0: ended by signal 9 (SIGKILL)", sanitized, without the count of restarts that the
// controller may put before it. Empty if the job has not restarted.
std::string RestartCause(const v1::Job& job);

// "1 of 3"; "1" if the job has no limit of its own.
std::string RestartsOf(const v1::Job& job);

int64_t GlobalBatch(const v1::JobSpec& spec);

// How a resumption changes the global batch, and which flags not in `request` would keep it; empty
// if it stays the same. `after`: the changed spec.
std::string BatchChangeText(const v1::JobSpec& before, const v1::JobSpec& after,
                            const v1::ResumeJobRequest& request);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_JOB_TEXT_H_
