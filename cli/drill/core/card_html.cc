#include "cli/drill/core/card_html.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/drill/core/judge.h"
#include "cli/drill/core/timeouts.h"

namespace paceline {
namespace {

// Colours have a contrast of 4.5 and more with what is behind them, in both schemes.
constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --text: #1b2430; --quiet: #5a6675; --line: #d8dee6;
  --paper: #fff; --good: #176b3a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaf0; --quiet: #a3afbd; --line: #36404d;
  --paper: #151b23; --good: #6fd195; --bad: #ff9a92; } }
body { font: 16px/1.45 system-ui, sans-serif; color: var(--text); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; }
p { color: var(--quiet); margin: .25rem 0 1.5rem; }
.result { font-size: 1.1rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .5rem 1rem .5rem 0;
  border-top: 1px solid var(--line); overflow-wrap: anywhere; }
th { white-space: nowrap; }
tbody th { font-weight: 500; }
.passed { color: var(--good); } .failed { color: var(--bad); font-weight: 600; }
.left { color: var(--quiet); } td.passed, td.failed, td.left { white-space: nowrap; }
)";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string CellOf(DrillVerdict verdict) {
  const std::string word = VerdictWord(verdict);
  return absl::StrCat("<td class=\"", verdict == DrillVerdict::kNotRehearsed ? "left" : word, "\">",
                      word, "</td>");
}

std::string RowOf(const DrillFinding& one) {
  const std::string mend =
      one.mend.empty() ? "" : absl::StrCat("<br><strong>Mend:</strong> ", Escaped(one.mend));
  return absl::StrCat("<tr><th scope=\"row\">", Escaped(one.check), "</th>", CellOf(one.verdict),
                      "<td>", Escaped(one.found), mend, "</td></tr>\n");
}

std::string RowOf(const TimeoutLine& one) {
  const DrillVerdict verdict = one.is_too_short() ? DrillVerdict::kFailed : DrillVerdict::kPassed;
  return absl::StrCat("<tr><th scope=\"row\">", Escaped(one.key), "</th>", CellOf(verdict), "<td>",
                      SpanText(one.given), "</td><td>", Escaped(one.seen), "</td><td>",
                      SpanText(one.proposed), "</td></tr>\n");
}

}  // namespace

std::string CardHtml(const ReportCard& card) {
  const int failures = FailuresOf(card);
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Drill of ",
      Escaped(card.job), "</title>\n<style>", kStyle,
      "</style></head>\n<body><main>\n<h1>Drill of ", Escaped(card.job), "</h1>\n<p>", card.ranks,
      card.ranks == 1 ? " rank, " : " ranks, ", card.steps, " steps a run, on ",
      Escaped(card.where), ", ", SpanText(card.took), "</p>\n<p class=\"result ",
      failures == 0 ? "passed\">Passed" : "failed\">To mend: ",
      failures == 0 ? "" : absl::StrCat(failures), "</p>\n");
  absl::StrAppend(&html,
                  "<table><caption>What was rehearsed</caption>\n<thead><tr><th>Fault</th>"
                  "<th>Verdict</th><th>Found</th></tr></thead><tbody>\n");
  for (const DrillFinding& one : card.findings) html += RowOf(one);
  absl::StrAppend(&html, "</tbody></table>\n");
  if (!card.timeouts.empty()) {
    absl::StrAppend(&html,
                    "<table><caption>Timeouts</caption>\n<thead><tr><th>Key</th><th>Verdict</th>"
                    "<th>Given</th><th>Seen</th><th>Proposed</th></tr></thead><tbody>\n");
    for (const TimeoutLine& one : card.timeouts) html += RowOf(one);
    absl::StrAppend(&html, "</tbody></table>\n");
  }
  absl::StrAppend(&html, "</main></body></html>\n");
  return html;
}

}  // namespace paceline
