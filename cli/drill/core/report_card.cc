#include "cli/drill/core/report_card.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

const char* WordOf(DrillVerdict verdict) {
  switch (verdict) {
    case DrillVerdict::kPassed:
      return "passed";
    case DrillVerdict::kFailed:
      return "FAILED";
    case DrillVerdict::kNotRehearsed:
      break;
  }
  return "-";
}

void AddLine(const std::string& word, const std::string& name, const std::string& text,
             const std::string& mend, std::string* card) {
  absl::StrAppendFormat(card, "%-6s  %-20s  %s\n", word, name, text);
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
    AddLine(WordOf(one.verdict), one.check,
            rehearsed ? one.found : absl::StrCat("not rehearsed: ", one.found), one.mend, &text);
  }
  for (const TimeoutLine& one : card.timeouts) {
    const std::string given = absl::StrCat(SpanText(one.given), "; seen: ", one.seen);
    const std::string proposed = absl::StrCat("proposed: ", SpanText(one.proposed));
    if (one.is_too_short()) {
      AddLine("FAILED", one.key, absl::StrCat("too short: ", given), proposed, &text);
    } else {
      AddLine("passed", one.key, absl::StrCat(given, "; ", proposed), "", &text);
    }
  }
  const int failures = FailuresOf(card);
  absl::StrAppend(&text, "\n",
                  failures == 0 ? "passed" : absl::StrCat("FAILED: ", failures, " to mend"),
                  left_out == 0 ? "" : absl::StrCat("; ", left_out, " not rehearsed"), "\n");
  return text;
}

}  // namespace paceline
