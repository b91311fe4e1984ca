#include "cli/view/straggler/straggler_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/text/sanitize.h"
#include "cli/view/numbers.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

// Width of a label, as in AddLine.
constexpr int kLabel = 12;

std::string Word(const google::protobuf::EnumDescriptor& type, int number) {
  return absl::StrReplaceAll(EnumName(type, number), {{"_", " "}});
}

}  // namespace

std::string WordOf(v1::VerdictKind kind) { return Word(*v1::VerdictKind_descriptor(), kind); }
std::string WordOf(v1::StragglerCause cause) {
  return Word(*v1::StragglerCause_descriptor(), cause);
}
std::string WordOf(v1::RemedyKind kind) {
  return absl::StrReplaceAll(EnumName(*v1::RemedyKind_descriptor(), kind), {{"_", "-"}});
}
std::string WordOf(v1::DecisionState state) { return Word(*v1::DecisionState_descriptor(), state); }

Colour StateColour(v1::DecisionState state) {
  switch (state) {
    case v1::DECISION_HELPED:
    case v1::DECISION_DONE:
      return Colour::kGreen;
    case v1::DECISION_DID_NOT_HELP:
    case v1::DECISION_FAILED:
      return Colour::kRed;
    case v1::DECISION_ADVISED:
    case v1::DECISION_ORDERED:
    case v1::DECISION_CHECKING:
      return Colour::kYellow;
    default:
      return Colour::kNone;
  }
}

std::string StepText(double seconds) {
  if (!(seconds > 0)) return "";
  if (seconds < 0.9995) return absl::StrFormat("%.3g ms", seconds * 1000);
  return seconds < 99.95 ? absl::StrFormat("%.3g s", seconds) : DurationText(seconds);
}

std::string SlowdownText(const v1::StragglerVerdict& verdict) {
  return absl::StrFormat("%.2f (%.2f-%.2f)", verdict.slowdown(), verdict.slowdown_low(),
                         verdict.slowdown_high());
}

std::string ExchangeText(const v1::StragglerVerdict& verdict) {
  const v1::ExchangeGroup& group = verdict.exchange();
  const std::string what =
      group.level() > 0 ? absl::StrCat("level ", group.level()) : std::string("gradients");
  return absl::StrFormat(
      "ranks %d-%d (%s): transfers take %.2f x (%.2f-%.2f) as long as those of other groups since "
      "step %d, %s of the job's time; rank %d comes last in %.0f %% of them",
      group.first_rank(), group.first_rank() + group.ranks() - 1, what, verdict.slowdown(),
      verdict.slowdown_low(), verdict.slowdown_high(), verdict.since_step(),
      PercentText(verdict.lost_share()), group.waits_least(), 100 * group.waits_least_share());
}

std::string GainText(double before_s, double after_s) {
  if (!(before_s > 0) || !(after_s > 0)) return "";
  const double percent = 100 * (1 - after_s / before_s);
  if (std::fabs(percent) < 0.5) return "as long";
  return absl::StrFormat("%.0f %% %s", std::fabs(percent), percent > 0 ? "shorter" : "longer");
}

std::string OwnerText(const v1::RemedyDecision& decision) {
  return decision.automatic() ? "automation" : SanitizeLine(decision.by());
}

bool IsOpen(const v1::RemedyDecision& decision) {
  return decision.state() == v1::DECISION_ADVISED || decision.state() == v1::DECISION_ORDERED ||
         decision.state() == v1::DECISION_CHECKING;
}

void AddParagraph(std::string* page, absl::string_view margin, absl::string_view label,
                  absl::string_view value, int width) {
  const std::string neutral = SanitizeLine(value);
  if (neutral.empty()) return;
  std::string line =
      absl::StrCat(margin, absl::StrFormat("%-*s", kLabel, absl::StrCat(label, ":")));
  const std::string indent(static_cast<size_t>(DisplayWidth(line)), ' ');
  bool is_begun = false;  // Whether the line has a word yet.
  for (const absl::string_view word : absl::StrSplit(neutral, ' ')) {
    if (is_begun && width > 0 && DisplayWidth(line) + 1 + DisplayWidth(word) > width) {
      absl::StrAppend(page, line, "\n");
      line = indent;
      is_begun = false;
    }
    absl::StrAppend(&line, is_begun ? " " : "", word);
    is_begun = true;
  }
  absl::StrAppend(page, line, "\n");
}

}  // namespace paceline
