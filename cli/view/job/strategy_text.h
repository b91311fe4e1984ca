// How the ranks of a job average, as `paceline job ladder` and `paceline job mode` take and show
// it.
//
// A ladder in one line: "2:2,4:4,8:all:int8" is a mean over 2 ranks each 2 steps, over 4 each 4,
// and over all each 8, the last one in int8. The ladder without levels is "synchronous": the mean
// of all gradients at each step. Slipstream (docs/slipstream.md) has modes and windows, and rounds
// that come to something.
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

// InvalidArgument names the level that cannot be read. Whether the ladder fits the job is the
// controller's to say.
absl::StatusOr<std::vector<v1::LadderLevel>> ParseLadder(absl::string_view text);

std::string LadderText(const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder);

// "hsgd 2:2,4:all", "hsgd synchronous", "local_sgd 8:all", "slipstream drop", "ddp".
std::string StrategyText(const v1::Strategy& strategy);

// "rank 3 could not prepare it: ..." of the job's newest plan; empty if all could so far.
std::string PlanFailureText(const v1::Job& job);

// Of "MIN:MAX" or "MIN:MAX:CAP" in steps: "2:16:64". InvalidArgument says what is expected.
absl::StatusOr<v1::SlipstreamWindow> ParseWindow(absl::string_view text);

// "slipstream drop"; "slipstream pause, window 1:8:32, optimizer state averaged".
std::string SlipstreamText(const v1::Strategy& strategy);

// As far as the ranks have told: "412 rounds, 97.8 % of the ranks in each, window 110 ms, cap 8
// steps, 0.3 % of the steps dropped, drift 0.012". Empty: nothing yet.
std::string RoundsText(const v1::Job& job);

// A table of the ranks that have told of rounds; empty when none has. `width`: columns of the
// terminal, 0: unlimited.
std::string RoundTable(const v1::Job& job, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_STRATEGY_TEXT_H_
