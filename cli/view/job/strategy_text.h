// What ranks have reported of a plan and of Slipstream's rounds (docs/slipstream.md), and the form
// of its windows; common/job_spec/ladder_text.h has that of ladders and strategies.
#ifndef CLI_VIEW_JOB_STRATEGY_TEXT_H_
#define CLI_VIEW_JOB_STRATEGY_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// "rank 3 could not prepare it: ...", about the job's newest plan; empty if none has failed.
std::string PlanFailureText(const v1::Job& job);

// Parses "MIN:MAX" or "MIN:MAX:CAP" in steps: "2:16:64". InvalidArgument says what is expected.
absl::StatusOr<v1::SlipstreamWindow> ParseWindow(absl::string_view text);

// What the ranks have reported: "412 rounds, 97.8 % of the ranks in each, window 110 ms, cap 8
// steps, 0.3 % of the steps dropped, drift 0.012". Empty: nothing yet.
std::string RoundsText(const v1::Job& job);

// A table of the ranks that have reported rounds; empty if none has. `width`: columns of the
// terminal, 0: unlimited.
std::string RoundTable(const v1::Job& job, int width, bool colours);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_STRATEGY_TEXT_H_
