// How the ranks of a job average, in one line: the form that `paceline job ladder` takes, and that
// `paceline job describe` and the controller's page show.
//
// "2:2,4:4,8:all:int8" averages over 2 ranks every 2 steps, over 4 every 4, and over all every 8,
// the last one in int8; "500:all:nesterov/0.7/0.9" ends in an outer step with this learning rate
// and momentum, "500:all:int4:nesterov/0.7/0.9" in the same with a format before it,
// "500:all:nesterov/0.7/0.9/4/10/0.5" in one of 4 fragments with a delay of 10 steps and alpha 0.5.
// A ladder without levels is "synchronous": all gradients are averaged at each step.
#ifndef COMMON_JOB_SPEC_LADDER_TEXT_H_
#define COMMON_JOB_SPEC_LADDER_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// InvalidArgument names the level that cannot be parsed. The controller decides whether the ladder
// fits the job.
absl::StatusOr<std::vector<v1::LadderLevel>> ParseLadder(absl::string_view text);

std::string LadderText(const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder);

// "hsgd 2:2,4:all", "hsgd synchronous", "local_sgd 8:all", "ddp", "slipstream drop", "slipstream
// pause, window 1:8:32, optimizer state averaged".
std::string StrategyText(const v1::Strategy& strategy);

// StrategyText of the one in use; "auto, at present slipstream drop" where the job leaves the
// choice to the controller.
std::string StrategyInUse(const v1::Strategy& asked, const v1::Strategy& used);

// Whether the mode has windows: its ranks train by themselves between two rounds.
bool HasWindow(v1::SlipstreamMode mode);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_LADDER_TEXT_H_
