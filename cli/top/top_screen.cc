#include "cli/top/top_screen.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/text/style.h"
#include "cli/top/top_rows.h"
#include "cli/view/job/job_text.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

// Lines besides the rows: above, and below if keys are read.
constexpr int kLinesAbove = 5;  // Title, two lines about the content, a blank one, the headings.
constexpr int kLinesBelow = 2;

std::string ClockText(absl::Time time) { return LocalTimeText(time, "%H:%M:%S"); }

// The title; on the right the time, or the trouble.
std::string TitleLine(const TopModel& model, const TopStyle& style, absl::Time now) {
  const bool trouble = !model.trouble.empty();
  // The trouble already names the server.
  const std::string left =
      trouble ? "paceline top" : absl::StrCat("paceline top  ", SanitizeLine(model.server));
  std::string right = ClockText(now);
  if (trouble) {
    const bool seen = model.fetched != absl::InfinitePast();
    right = absl::StrCat(SanitizeLine(model.trouble),
                         seen ? absl::StrCat("; as of ", ClockText(model.fetched)) : "");
  }
  const int gap = style.width - DisplayWidth(left) - DisplayWidth(right);
  return absl::StrCat(Painted(left, Colour::kBold, style.colours),
                      std::string(static_cast<size_t>(std::max(2, gap)), ' '),
                      Painted(right, trouble ? Colour::kRed : Colour::kNone, style.colours));
}

// "16: 14 ready, 1 draining".
std::string StatesText(int total, const std::map<std::string, int>& states) {
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) {
    parts.push_back(absl::StrCat(count, " ", absl::AsciiStrToLower(state)));
  }
  return absl::StrCat(total, parts.empty() ? "" : ": ", absl::StrJoin(parts, ", "));
}

std::string NodesLine(const TopModel& model) {
  std::map<std::string, int> states;
  int slots = 0, slots_used = 0, gpus = 0, gpus_used = 0;
  for (const v1::Node& node : model.nodes) {
    ++states[StateText(node.state())];
    slots += node.slots();
    slots_used += node.slots_used();
    gpus += node.hardware().gpus_size();
    gpus_used += node.gpus_used();
  }
  return absl::StrCat("Nodes  ", StatesText(static_cast<int>(model.nodes.size()), states),
                      "   Slots ", slots_used, "/", slots,
                      gpus > 0 ? absl::StrCat("   GPUs ", gpus_used, "/", gpus) : "");
}

std::string JobsLine(const TopModel& model, const TopView& view) {
  std::map<std::string, int> states;
  int total = 0;
  for (const v1::Job& job : model.jobs) {
    if (!view.ended && HasEnded(job.state())) continue;
    ++states[StateText(job.state())];
    ++total;
  }
  std::string line = absl::StrCat("Jobs   ", StatesText(total, states));
  if (!model.cut.empty()) {
    absl::StrAppend(&line, "; older ", absl::StrJoin(model.cut, " and "), " ones left out");
  }
  absl::StrAppend(&line, "   by ", NameOf(view.job_order), view.reversed ? " (reversed)" : "");
  return line;
}

std::vector<std::string> HelpLines() {
  return {"Keys of paceline top",
          "",
          "  up, down, j, k      move; page up, page down, home, end too",
          "  Enter               show the ranks of the job",
          "  Esc, Backspace      back to all jobs; take the filter away",
          "  s                   sort by the next column      r   reverse",
          "  /                   filter: type a part of a name, node or state, then Enter",
          "  a                   show jobs that have ended, or not",
          "  space               fetch now                    q   quit",
          "",
          "  STEP TIME  mean of the latest steps; OWN: what of it is not waiting for others",
          "  X MEDIAN   a rank's own time over the median of all",
          "  WAIT       share of the time spent waiting for other ranks; DATA: for data",
          "",
          "any key goes back"};
}

std::string KeyLine(const TopView& view) {
  if (view.typing) return absl::StrCat("filter: ", view.filter, "_");
  const std::string filtered =
      view.filter.empty() ? "" : absl::StrCat("filter \"", view.filter, "\"  ");
  return absl::StrCat(filtered, view.job.empty() ? "enter ranks  a ended  " : "",
                      view.job.empty() || view.only ? "" : "esc back  ",
                      "s sort  r reverse  / filter  h help  ",
                      view.only ? "esc, q quit" : "q quit");
}

// The rows that fit, including those that the cursor or the scrolling asks for.
std::vector<std::string> Window(const std::vector<std::string>& rows, int page, int place,
                                bool centred) {
  const int count = static_cast<int>(rows.size());
  const int wanted = centred ? place - page / 2 : place;
  const int first = std::clamp(wanted, 0, std::max(0, count - page));
  return {rows.begin() + first, rows.begin() + std::min(count, first + page)};
}

const char* NothingText(const TopModel& model, const TopView& view) {
  if (model.fetched == absl::InfinitePast()) return "";
  if (!view.filter.empty()) return "nothing matches the filter";
  if (!view.job.empty()) return "no rank of it runs";
  return view.ended ? "no jobs yet; `paceline submit FILE` makes one" : "no job waits or runs";
}

}  // namespace

std::string FitLine(const std::string& line, int width, bool utf8) {
  std::string out;
  int seen = 0;
  bool painted = false;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      const size_t end = std::min(line.find('m', i), line.size() - 1) + 1;
      painted = line.substr(i, end - i) != "\x1b[0m";
      out.append(line, i, end - i);
      i = end;
      continue;
    }
    size_t end = i + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) ++end;
    if (width > 0 && seen == width) break;
    out += utf8 || end == i + 1 ? line.substr(i, end - i) : "?";
    ++seen;
    i = end;
  }
  return painted ? out + "\x1b[0m" : out;
}

int TopPage(const TopStyle& style) {
  if (style.height <= 0) return 1 << 30;
  return std::max(1, style.height - kLinesAbove - (style.interactive ? kLinesBelow : 0));
}

std::vector<std::string> TopLines(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now) {
  std::vector<std::string> lines = {TitleLine(model, style, now)};
  if (view.help) {
    for (std::string& line : HelpLines()) lines.push_back(std::move(line));
  } else {
    const bool all = view.job.empty();
    std::vector<std::string> head = {NodesLine(model), JobsLine(model, view)};
    if (!all) head = JobHead(model, view, style);
    lines.insert(lines.end(), head.begin(), head.end());
    lines.emplace_back();
    std::vector<std::string> rows =
        all ? JobRows(model, view, style) : RankRows(model, view, style, now);
    lines.push_back(rows.front());
    rows.erase(rows.begin());
    const bool nothing = rows.empty();
    const int place = all ? CursorPlace(ShownJobs(model, view), view) : view.first;
    const std::vector<std::string> shown = Window(rows, TopPage(style), place, all);
    lines.insert(lines.end(), shown.begin(), shown.end());
    if (nothing) lines.emplace_back(NothingText(model, view));
  }
  const auto height = static_cast<size_t>(std::max(0, style.height));
  if (style.interactive && height > kLinesBelow) {
    lines.resize(height - 1);
    lines.push_back(Painted(KeyLine(view), Colour::kDim, style.colours));
  }
  if (height > 0 && lines.size() > height) lines.resize(height);
  for (std::string& line : lines) line = FitLine(line, style.width, style.utf8);
  return lines;
}

}  // namespace paceline
