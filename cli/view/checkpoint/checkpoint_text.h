// Describes checkpoints. Text from elsewhere is sanitized.
#ifndef CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_
#define CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/text/reported_once.h"
#include "cli/text/style.h"
#include "cli/view/page.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {

std::string StateText(v1::CheckpointState state);
Colour StateColour(v1::CheckpointState state);

// "digits/120", which can be typed as long as the job is the newest of its name.
std::string CheckpointNameText(const v1::Checkpoint& checkpoint);

// `names`: one per checkpoint. Wide: includes directories.
std::string CheckpointTable(const v1::ListCheckpointsResponse& checkpoints,
                            const std::vector<std::string>& names, absl::Time now,
                            const PageStyle& style);

// "120 (2.5 s ago)": the newest complete checkpoint of a job; empty if there is none.
std::string NewestText(const v1::Job& job, absl::Time now);

// "checkpoints cannot be saved (newest: step 40, 2 h 03 min old): no space left", for a job that
// has not ended and whose latest save failed; else empty.
std::string SaveTroubleText(const v1::Job& job, absl::Time now);

// "copies in host memory are late, and a loss may cost 600 steps; ...", for a job that has not
// ended; else empty.
std::string CopyTroubleText(const v1::Job& job);

// "training stood still for 12 ms, durable after 0.9 s"; empty before the first save.
std::string SaveCostText(const v1::JobCheckpoints& checkpoints);

// Adds the lines about checkpoints and restarts to a job's page.
void AddCheckpointLines(std::string* page, const v1::Job& job, absl::Time now,
                        ReportedOnce* reported = nullptr);

}  // namespace paceline

#endif  // CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_
