// Slipstream (docs/slipstream.md) for people: its modes and windows as `paceline job mode` takes
// and shows them, and what its rounds came to.
#ifndef CLI_VIEW_SLIPSTREAM_TEXT_H_
#define CLI_VIEW_SLIPSTREAM_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

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

#endif  // CLI_VIEW_SLIPSTREAM_TEXT_H_
