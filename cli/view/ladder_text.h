// Ladders in one line, as `paceline job ladder` takes and shows them: "2:2,4:4,8:all:int8" is a
// mean over 2 ranks each 2 steps, over 4 each 4, and over all each 8, the last one in int8. The
// ladder without levels is "synchronous": the mean of all gradients at each step.
#ifndef CLI_VIEW_LADDER_TEXT_H_
#define CLI_VIEW_LADDER_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// InvalidArgument names the level that cannot be read. Whether the ladder fits the job is the
// controller's to say.
absl::StatusOr<std::vector<v1::LadderLevel>> ParseLadder(absl::string_view text);

std::string LadderText(const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder);

// "hsgd 2:2,4:all", "hsgd synchronous", "local_sgd 8:all", "slipstream drop", "ddp".
std::string StrategyText(const v1::Strategy& strategy);

// "rank 3 could not prepare it: ..." of the job's newest plan; empty if all could so far.
std::string PlanFailureText(const v1::Job& job);

}  // namespace paceline

#endif  // CLI_VIEW_LADDER_TEXT_H_
