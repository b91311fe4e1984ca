#include "cli/view/job/event_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text/sanitize.h"
#include "cli/text/style.h"
#include "cli/text/wrapped.h"
#include "cli/view/job/job_text.h"
#include "common/job_spec/enum_name.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

// Columns before the text: time, kind and step.
constexpr int kMargin = 19 + 2 + 10 + 2 + 8 + 2;
// If less room than this is left for the text, wrapping is left to the terminal.
constexpr int kLeastText = 20;

Colour ColourOf(const v1::JobHistoryEvent& event) {
  if (event.warning()) return event.state() == v1::FAILED ? Colour::kRed : Colour::kYellow;
  return event.kind() == v1::EVENT_STATE ? StateColour(event.state()) : Colour::kNone;
}

}  // namespace

std::string WordOf(v1::JobEventKind kind) { return EnumName(*v1::JobEventKind_descriptor(), kind); }

std::string EventHeading(const PageStyle& style) {
  if (!style.headings) return "";
  return absl::StrCat(
      Painted(absl::StrFormat("%-19s  %-10s  %8s  %s", "TIME", "KIND", "STEP", "WHAT"),
              Colour::kBold, style.colours),
      "\n");
}

std::string EventLines(const v1::JobHistoryEvent& event, const PageStyle& style) {
  const std::string kind = WordOf(event.kind());
  const std::string step = event.step() > 0 ? absl::StrCat(event.step()) : "-";
  std::string out = absl::StrFormat(
      "%-19s  ", LocalTimeText(TimeOf(event.has_time(), event.time()), kDateAndTime));
  absl::StrAppend(&out, Painted(kind, ColourOf(event), style.colours),
                  std::string(static_cast<size_t>(std::max(0, 10 - DisplayWidth(kind))), ' '),
                  absl::StrFormat("  %8s  ", step));
  const int room = style.width - kMargin;
  bool first = true;
  for (const std::string& line :
       Wrapped(SanitizeLine(event.what()), room >= kLeastText ? room : 0)) {
    absl::StrAppend(&out, first ? "" : std::string(kMargin, ' '), line, "\n");
    first = false;
  }
  return out;
}

}  // namespace paceline
