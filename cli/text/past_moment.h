// Moments in the past, as people type them.
#ifndef CLI_TEXT_PAST_MOMENT_H_
#define CLI_TEXT_PAST_MOMENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// Parses "10m" or "1h30m" (before `now`), "14:05" or "14:05:30" (the last time that the clock
// showed it), "2026-11-22 14:05", with or without seconds, or "2026-11-22T14:05:00Z" (RFC 3339).
// `zone` applies if the text names none. InvalidArgument for other texts, and for the future.
absl::StatusOr<absl::Time> ParsePastMoment(absl::string_view text, absl::Time now,
                                           absl::TimeZone zone);

}  // namespace paceline

#endif  // CLI_TEXT_PAST_MOMENT_H_
