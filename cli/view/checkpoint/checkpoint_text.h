// Checkpoints in words. Text that came from elsewhere is neutralised.
#ifndef CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_
#define CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/text/style.h"
#include "cli/text/told_once.h"
#include "cli/view/page.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {

std::string StateText(v1::CheckpointState state);
Colour StateColour(v1::CheckpointState state);

// "digits/120": as it can be typed while the job is the newest of its name.
std::string CheckpointNameText(const v1::Checkpoint& checkpoint);

// `names`: one for each of `checkpoints`. Wide: directories too.
std::string CheckpointTable(const v1::ListCheckpointsResponse& checkpoints,
                            const std::vector<std::string>& names, absl::Time now,
                            const PageStyle& style);

// "120 (2.5 s ago)": the newest complete checkpoint of a job; empty if there is none.
std::string NewestText(const v1::Job& job, absl::Time now);

// "checkpoints cannot be saved (newest: step 40, 2 h 03 min old): no space left": of a job that
// goes on and whose latest save has failed; empty otherwise.
std::string SaveTroubleText(const v1::Job& job, absl::Time now);

// "training stood still for 12 ms, durable after 0.9 s"; empty before the first one.
std::string SaveCostText(const v1::JobCheckpoints& checkpoints);

// The lines of a job's page about checkpoints and starts after failures.
void AddCheckpointLines(std::string* page, const v1::Job& job, absl::Time now,
                        ToldOnce* told = nullptr);

}  // namespace paceline

#endif  // CLI_VIEW_CHECKPOINT_CHECKPOINT_TEXT_H_
