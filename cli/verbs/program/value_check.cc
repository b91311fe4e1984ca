#include "cli/verbs/program/value_check.h"

#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/text/sanitize.h"
#include "cli/text/shell_path.h"

namespace paceline {
namespace {

// Describes the allowed range; if it is `open`, only the limit that the value violates.
template <typename T>
std::string RangeText(T least, T most, bool open, bool above) {
  if (!open) return absl::StrCat(" from ", least, " to ", most);
  return above ? absl::StrCat(" of at most ", most) : absl::StrCat(" of at least ", least);
}

std::string NotAllowed(const std::string& text, const std::string& what) {
  return absl::StrCat(text.empty() ? "nothing" : text, " is not allowed; give ", what);
}

}  // namespace

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  const bool open = most >= std::numeric_limits<int32_t>::max();
  const auto check = [least, most, open](std::string& text) {
    int64_t value = 0;
    const bool read = absl::SimpleAtoi(text, &value);
    if (read && value >= least && value <= most) return std::string();
    const bool above = read && value > most;
    return NotAllowed(text, absl::StrCat("a whole number", RangeText(least, most, open, above)));
  };
  return CLI::Validator(check, open ? absl::StrCat("at least ", least)
                                    : absl::StrCat("in [", least, " - ", most, "]"));
}

CLI::Validator Number(double least, double most) {
  const bool open = most == std::numeric_limits<double>::infinity();
  const auto check = [least, most, open](std::string& text) {
    double value = 0;
    // NaN is in no range.
    if (absl::SimpleAtod(text, &value) && value >= least && value <= most &&
        value < std::numeric_limits<double>::infinity()) {
      return std::string();
    }
    return NotAllowed(text, absl::StrCat("a number", RangeText(least, most, open, false)));
  };
  return CLI::Validator(check, open ? absl::StrCat("at least ", least)
                                    : absl::StrCat("in [", least, " - ", most, "]"));
}

CLI::Validator Seconds(double least, double most) {
  const CLI::Validator number = Number(least, most);
  const auto check = [least, most](std::string& text) {
    double seconds = 0;
    absl::Duration span;
    const bool plain = absl::SimpleAtod(text, &seconds);
    const bool read = plain || absl::ParseDuration(text, &span);
    if (!plain) seconds = absl::ToDoubleSeconds(span);
    if (read && seconds >= least && seconds <= most &&
        seconds < std::numeric_limits<double>::infinity()) {
      if (!plain) text = absl::StrCat(seconds);
      return std::string();
    }
    const bool open = most == std::numeric_limits<double>::infinity();
    return NotAllowed(text, absl::StrCat("seconds, or a time span such as 10m or 1h30m,",
                                         RangeText(least, most, open, false), " seconds"));
  };
  return CLI::Validator(check, number.get_description());
}

CLI::Validator PlainPath() {
  const auto check = [](std::string& text) { return SanitizeLine(ShellPathProblem(text)); };
  return CLI::Validator(check, "");
}

CLI::Validator Size() {
  const std::map<std::string, uint64_t> units = {{"B", 1},
                                                 {"KB", 1'000},
                                                 {"MB", 1'000'000},
                                                 {"GB", 1'000'000'000},
                                                 {"KiB", 1ull << 10},
                                                 {"MiB", 1ull << 20},
                                                 {"GiB", 1ull << 30}};
  const CLI::AsNumberWithUnit convert(units, CLI::AsNumberWithUnit::CASE_INSENSITIVE);
  const auto check = [convert](std::string& text) {
    const std::string given = text;
    const std::string problem =
        NotAllowed(given,
                   "a whole number above 0 with B, KB, MB or GB (of 1000) or KiB, MiB or GiB "
                   "(of 1024)");
    try {
      int64_t bytes = 0;
      const bool is_size = convert(text).empty() && absl::SimpleAtoi(text, &bytes) && bytes > 0;
      return is_size ? std::string() : problem;
    } catch (const CLI::ValidationError&) {
      return problem;  // Our wording replaces CLI11's.
    }
  };
  return CLI::Validator(check, "SIZE");
}

}  // namespace paceline
