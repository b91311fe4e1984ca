#include "cli/drill/core/run_record.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/core/startup_steps.h"

namespace paceline {
namespace {

constexpr absl::string_view kInfo = " I step=";

// The number of `length` digits at `at`; -1: there is none.
int NumberAt(absl::string_view text, size_t at, size_t length) {
  int number = -1;
  const absl::string_view digits = text.substr(at, length);
  const bool are_digits =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return are_digits && absl::SimpleAtoi(digits, &number) ? number : -1;
}

// Of "2026-11-30T14:05:01.123+02:00", as common/log.cc writes it. Without absl::ParseTime, whose
// time zones are files.
std::optional<absl::Time> ParseLogTime(absl::string_view text) {
  constexpr absl::string_view kShape = "0000-00-00T00:00:00.000+00:00";
  if (text.size() != kShape.size()) return std::nullopt;
  const char sign = text[23];
  const int parts[] = {NumberAt(text, 0, 4),  NumberAt(text, 5, 2),  NumberAt(text, 8, 2),
                       NumberAt(text, 11, 2), NumberAt(text, 14, 2), NumberAt(text, 17, 2),
                       NumberAt(text, 20, 3), NumberAt(text, 24, 2), NumberAt(text, 27, 2)};
  if (*std::min_element(std::begin(parts), std::end(parts)) < 0 || (sign != '+' && sign != '-')) {
    return std::nullopt;
  }
  const absl::CivilSecond local(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]);
  const absl::Duration offset = absl::Hours(parts[7]) + absl::Minutes(parts[8]);
  return absl::UnixEpoch() + absl::Seconds(local - absl::CivilSecond(1970, 1, 1)) +
         absl::Milliseconds(parts[6]) - (sign == '-' ? -offset : offset);
}

// The value of " key=" in `text`; empty: there is none.
absl::string_view ValueOf(absl::string_view text, absl::string_view key) {
  const std::string wanted = absl::StrCat(" ", key, "=");
  const size_t at = text.find(wanted);
  if (at == absl::string_view::npos) return "";
  text.remove_prefix(at + wanted.size());
  return text.substr(0, text.find(' '));
}

// What the step of the mark took that is not its own.
absl::Duration PaceAt(const RunRecord& run, const StepMark& mark) {
  return mark.step < run.paced_until ? run.pace : absl::ZeroDuration();
}

// Between the ends of two steps that follow each other in the log, without the first steps.
std::vector<absl::Duration> Gaps(const RunRecord& run) {
  std::vector<absl::Duration> gaps;
  for (size_t i = kStartupSteps; i < run.marks.size(); ++i) {
    const absl::Duration gap =
        run.marks[i].time - run.marks[i - 1].time - PaceAt(run, run.marks[i]);
    gaps.push_back(std::max(absl::ZeroDuration(), gap));
  }
  return gaps;
}

}  // namespace

std::optional<StepMark> ParseStepLine(absl::string_view line) {
  const size_t at = line.find(kInfo);
  if (at == absl::string_view::npos) return std::nullopt;
  const std::optional<absl::Time> time = ParseLogTime(line.substr(0, at));
  if (!time.has_value()) return std::nullopt;
  StepMark mark;
  mark.time = *time;
  const absl::string_view text = line.substr(at + 2);  // " step=...".
  int64_t done = 0;
  if (!absl::SimpleAtoi(ValueOf(text, "step"), &done) || done < 1) return std::nullopt;
  mark.step = done - 1;
  absl::string_view loss = ValueOf(text, "mean_loss");
  if (loss.empty()) loss = ValueOf(text, "loss");
  double number = 0;
  if (!absl::SimpleAtod(loss, &number)) return std::nullopt;
  mark.loss = std::string(loss);
  return mark;
}

int RunRecord::losses() const {
  return static_cast<int>(std::count_if(changes.begin(), changes.end(),
                                        [](const RankChange& change) { return !change.planned; }));
}

RunTimes TimesOf(const RunRecord& run) {
  RunTimes times;
  if (!run.marks.empty()) {
    times.until_first = std::max(absl::ZeroDuration(), run.marks.front().time - run.submitted);
  }
  std::vector<absl::Duration> gaps = Gaps(run);
  if (gaps.empty()) return times;
  std::sort(gaps.begin(), gaps.end());
  times.median = gaps[gaps.size() / 2];
  times.longest = gaps.back();
  return times;
}

ChangeTimes ChangesOf(const RunRecord& run) {
  ChangeTimes times;
  times.pause = TimesOf(run).longest;
  const auto change =
      std::find_if(run.changes.begin(), run.changes.end(),
                   [](const RankChange& one) { return one.trained != absl::InfiniteFuture(); });
  if (change == run.changes.end()) return times;
  times.rejoin = std::max(absl::ZeroDuration(), change->trained - change->decided);
  const auto next = std::find_if(run.marks.begin(), run.marks.end(),
                                 [&](const StepMark& mark) { return mark.time > change->trained; });
  if (next == run.marks.end()) return times;
  times.first_step =
      std::max(absl::ZeroDuration(), next->time - change->trained - PaceAt(run, *next));
  return times;
}

}  // namespace paceline
