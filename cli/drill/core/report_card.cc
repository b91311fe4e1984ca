#include "cli/drill/core/report_card.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

// Short, and failures stand out.
std::string MarkOf(DrillVerdict verdict) {
  if (verdict == DrillVerdict::kNotRehearsed) return "-";
  const std::string word = VerdictWord(verdict);
  return verdict == DrillVerdict::kFailed ? absl::AsciiStrToUpper(word) : word;
}

void AddLine(DrillVerdict verdict, const std::string& name, const std::string& text,
             const std::string& mend, std::string* card) {
  absl::StrAppendFormat(card, "%-6s  %-20s  %s\n", MarkOf(verdict), name, text);
  if (!mend.empty()) absl::StrAppendFormat(card, "%-6s  %-20s  mend: %s\n", "", "", mend);
}

}  // namespace

int FailuresOf(const ReportCard& card) {
  return static_cast<int>(
      std::count_if(card.findings.begin(), card.findings.end(),
                    [](const DrillFinding& one) { return one.verdict == DrillVerdict::kFailed; }) +
      std::count_if(card.timeouts.begin(), card.timeouts.end(),
                    [](const TimeoutLine& one) { return one.is_too_short(); }));
}

std::string CardText(const ReportCard& card) {
  std::string text = absl::StrCat(
      "drill of ", card.job, ": ", card.ranks, card.ranks == 1 ? " rank, " : " ranks, ", card.steps,
      " steps a run, on ", card.where, ", ", SpanText(card.took), "\n\n");
  int left_out = 0;
  for (const DrillFinding& one : card.findings) {
    const bool rehearsed = one.verdict != DrillVerdict::kNotRehearsed;
    if (!rehearsed) ++left_out;
    AddLine(one.verdict, one.check,
            rehearsed ? one.found : absl::StrCat(VerdictWord(one.verdict), ": ", one.found),
            one.mend, &text);
  }
  for (const TimeoutLine& one : card.timeouts) {
    const std::string given = absl::StrCat(SpanText(one.given), "; seen: ", one.seen);
    const std::string proposed = absl::StrCat("proposed: ", SpanText(one.proposed));
    if (one.is_too_short()) {
      AddLine(DrillVerdict::kFailed, one.key, absl::StrCat("too short: ", given), proposed, &text);
    } else {
      AddLine(DrillVerdict::kPassed, one.key, absl::StrCat(given, "; ", proposed), "", &text);
    }
  }
  const int failures = FailuresOf(card);
  const std::string mark = MarkOf(failures == 0 ? DrillVerdict::kPassed : DrillVerdict::kFailed);
  const std::string not_rehearsed = VerdictWord(DrillVerdict::kNotRehearsed);
  absl::StrAppend(&text, "\n", mark, failures == 0 ? "" : absl::StrCat(": ", failures, " to mend"),
                  left_out == 0 ? "" : absl::StrCat("; ", left_out, " ", not_rehearsed), "\n");
  return text;
}

}  // namespace paceline
