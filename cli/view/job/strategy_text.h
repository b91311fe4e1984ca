// How the ranks of a job average, in the form that `paceline job ladder` and `paceline job mode`
// take and show.
//
// A ladder is one line: "2:2,4:4,8:all:int8" averages over 2 ranks every 2 steps, over 4 every 4,
// and over all every 8, the last one in int8; "500:all:nesterov/0.7/0.9" ends in an outer step with
// this learning rate and momentum, "500:all:nesterov/0.7/0.9/4/10/0.5" in one of 4 fragments with a
// delay of 10 steps and alpha 0.5. A ladder without levels is "synchronous": all gradients are
// averaged at each step. Slipstream (docs/slipstream.md) has modes, windows and
// figures of its rounds.
#ifndef CLI_VIEW_JOB_STRATEGY_TEXT_H_
#define CLI_VIEW_JOB_STRATEGY_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// InvalidArgument names the level that cannot be parsed. The controller decides whether the ladder
// fits the job.
absl::StatusOr<std::vector<v1::LadderLevel>> ParseLadder(absl::string_view text);

std::string LadderText(const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder);

// "hsgd 2:2,4:all", "hsgd synchronous", "local_sgd 8:all", "slipstream drop", "ddp".
std::string StrategyText(const v1::Strategy& strategy);

// "rank 3 could not prepare it: ...", about the job's newest plan; empty if none has failed.
std::string PlanFailureText(const v1::Job& job);

// Parses "MIN:MAX" or "MIN:MAX:CAP" in steps: "2:16:64". InvalidArgument says what is expected.
absl::StatusOr<v1::SlipstreamWindow> ParseWindow(absl::string_view text);

// "slipstream drop"; "slipstream pause, window 1:8:32, optimizer state averaged".
std::string SlipstreamText(const v1::Strategy& strategy);

// What the ranks have reported: "412 rounds, 97.8 % of the ranks in each, window 110 ms, cap 8
// steps, 0.3 % of the steps dropped, drift 0.012". Empty: nothing yet.
std::string RoundsText(const v1::Job& job);

// A table of the ranks that have reported rounds; empty if none has. `width`: columns of the
// terminal, 0: unlimited.
std::string RoundTable(const v1::Job& job, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_STRATEGY_TEXT_H_
