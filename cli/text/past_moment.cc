#include "cli/text/past_moment.h"

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "cli/text/sanitize.h"

namespace paceline {
namespace {

constexpr const char* kFormats[] = {absl::RFC3339_full, "%Y-%m-%d %H:%M:%E*S", "%Y-%m-%d %H:%M"};
constexpr const char* kClockFormats[] = {"%H:%M:%E*S", "%H:%M"};

absl::Status Refused(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", SanitizeLine(text), "\" ", why,
                   "; give a duration such as 10m or 1h30m, or a time such as 14:05 or "
                   "\"2026-11-22 14:05\""));
}

// Returns that time on the day of `now`, or on the day before if it is still to come.
absl::Time LastTimeOfDay(absl::CivilSecond clock, absl::Time now, absl::TimeZone zone) {
  const absl::CivilDay today = absl::ToCivilDay(now, zone);
  const auto on = [&](absl::CivilDay day) {
    return absl::FromCivil(absl::CivilSecond(day.year(), day.month(), day.day(), clock.hour(),
                                             clock.minute(), clock.second()),
                           zone);
  };
  return on(today) <= now ? on(today) : on(today - 1);
}

}  // namespace

absl::StatusOr<absl::Time> ParsePastMoment(absl::string_view text, absl::Time now,
                                           absl::TimeZone zone) {
  absl::Duration ago;
  if (absl::ParseDuration(text, &ago)) {
    if (ago <= absl::ZeroDuration() || ago == absl::InfiniteDuration()) {
      return Refused(text, "is no time span");
    }
    return now - ago;
  }
  absl::Time moment;
  for (const char* format : kFormats) {
    if (!absl::ParseTime(format, text, zone, &moment, nullptr)) continue;
    if (moment > now) return Refused(text, "lies in the future");
    // absl::ParseTime accepts "infinite-past" in each format.
    if (moment == absl::InfinitePast()) return Refused(text, "is no time");
    return moment;
  }
  for (const char* format : kClockFormats) {
    if (!absl::ParseTime(format, text, absl::UTCTimeZone(), &moment, nullptr)) continue;
    return LastTimeOfDay(absl::ToCivilSecond(moment, absl::UTCTimeZone()), now, zone);
  }
  return Refused(text, "is no time");
}

}  // namespace paceline
