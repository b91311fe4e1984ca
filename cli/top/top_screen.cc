#include "cli/top/top_screen.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/text/neutral.h"
#include "cli/text/sparkline.h"
#include "cli/text/table.h"
#include "cli/view/job_text.h"
#include "cli/view/numbers.h"
#include "cli/view/straggler_text.h"

namespace paceline {
namespace {

constexpr int kSparkColumns = 12;
// Lines beside the rows: above them, and below when keys are read.
constexpr int kLinesAbove = 5;  // Title, two about what is shown, an empty one, the headings.
constexpr int kLinesBelow = 2;
// So much over the median is worth a colour.
constexpr double kSlowRatio = 1.2;

std::string ClockText(absl::Time time) {
  return absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone());
}

// "8.1k", "950", "1.2M".
std::string ShortRate(double rate) {
  if (rate <= 0) return "";
  if (rate < 10000) return RateText(rate);
  if (rate < 1e7) return absl::StrFormat("%.1fk", rate / 1000);
  return absl::StrFormat("%.1fM", rate / 1e6);
}

std::string ShareText(bool known, double share) {
  return known ? absl::StrFormat("%.0f %%", 100 * share) : "";
}

const v1::JobTelemetry* TelemetryOf(const TopModel& model, const std::string& job) {
  const auto known = model.telemetry.find(job);
  return known == model.telemetry.end() ? nullptr : &known->second;
}

// "rank 4 on w4 1.65 x, host pause".
std::string SlowText(const v1::StragglerVerdict& verdict) {
  std::string subject;
  if (verdict.has_exchange()) {
    const v1::ExchangeGroup& group = verdict.exchange();
    subject = absl::StrCat("exchange of ranks ", group.first_rank(), "-",
                           group.first_rank() + group.ranks() - 1);
  } else if (verdict.rank() >= 0) {
    subject = absl::StrCat("rank ", verdict.rank(), " on ", NeutralLine(verdict.node()));
  } else {
    subject = verdict.node().empty() ? absl::StrCat("peer group ", verdict.peer_group())
                                     : absl::StrCat("node ", NeutralLine(verdict.node()));
  }
  return absl::StrFormat("%s %.2f x, %s", subject, verdict.slowdown(), WordOf(verdict.cause()));
}

// What there is to say about a job: who is slow and what is done about it, else its reason.
std::string NewsOf(const TopModel& model, const v1::Job& job) {
  const v1::JobTelemetry* telemetry = TelemetryOf(model, job.id());
  std::vector<std::string> news;
  if (telemetry != nullptr && telemetry->slow_count() > 0 && telemetry->slow_size() > 0) {
    news.push_back(absl::StrCat("slow: ", SlowText(telemetry->slow(0))));
    if (telemetry->slow_count() > 1) {
      news.back() += absl::StrCat(", and ", telemetry->slow_count() - 1, " more");
    }
  }
  if (telemetry != nullptr && !telemetry->decision().empty() &&
      telemetry->decision_state() != v1::DECISION_WITHDRAWN) {
    news.push_back(
        absl::StrCat(NeutralLine(telemetry->decision()), " ", WordOf(telemetry->decision_state())));
  }
  if (news.empty()) news.push_back(NeutralLine(job.reason()));
  return absl::StrJoin(news, "; ");
}

bool HasSlow(const TopModel& model, const v1::Job& job) {
  const v1::JobTelemetry* telemetry = TelemetryOf(model, job.id());
  return telemetry != nullptr && telemetry->slow_count() > 0;
}

int RunningRanks(const v1::Job& job) {
  return static_cast<int>(
      std::count_if(job.ranks().begin(), job.ranks().end(),
                    [](const v1::Rank& rank) { return rank.state() == v1::TRAINER_RUNNING; }));
}

std::string StepsText(const v1::Job& job) {
  return absl::StrCat(job.progress().step(), "/", job.spec().steps());
}

std::string RateOf(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  if (job.state() != v1::RUNNING) return "";
  return progress.tokens_per_s() > 0 ? ShortRate(progress.tokens_per_s())
                                     : ShortRate(progress.samples_per_s());
}

// The title, with the time, or the trouble, to the right.
std::string TitleLine(const TopModel& model, const TopStyle& style, absl::Time now) {
  const bool trouble = !model.trouble.empty();
  // The trouble names the server.
  const std::string left =
      trouble ? "paceline top" : absl::StrCat("paceline top  ", NeutralLine(model.server));
  std::string right = ClockText(now);
  if (trouble) {
    const bool seen = model.fetched != absl::InfinitePast();
    right = absl::StrCat(NeutralLine(model.trouble),
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
  absl::StrAppend(&line, "   by ", NameOf(view.job_order), view.reversed ? " (reversed)" : "");
  return line;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();  // Behind the last newline.
  return lines;
}

std::vector<std::string> JobRows(const TopModel& model, const TopView& view,
                                 const TopStyle& style) {
  // Of those that may be left out, what matters least stands to the right.
  std::vector<Table::Column> columns = {{"NAME"},
                                        {"STATE"},
                                        {"RANKS", true},
                                        {"STEP", true},
                                        {"STEP TIME", true},
                                        {"WAIT", true, true},
                                        {"MFU", true, true},
                                        {"RATE", true, true},
                                        {"LAST MINUTES", false, true},
                                        {"ID", false, true},
                                        {"NEWS"}};
  // The cursor needs no colours.
  if (style.interactive) columns.insert(columns.begin(), Table::Column{""});
  Table table(std::move(columns));
  const std::vector<const v1::Job*> jobs = ShownJobs(model, view);
  const int cursor = CursorPlace(jobs, view);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const v1::Job& job = *jobs[i];
    const v1::JobTelemetry* telemetry = TelemetryOf(model, job.id());
    const bool marked = style.interactive && static_cast<int>(i) == cursor;
    const bool has_mfu = job.state() == v1::RUNNING && job.progress().has_mfu();
    std::vector<double> recent;
    if (telemetry != nullptr) {
      recent.assign(telemetry->recent_step_s().begin(), telemetry->recent_step_s().end());
    }
    const Colour bold = marked ? Colour::kBold : Colour::kNone;
    std::vector<Table::Cell> row = {
        {job.spec().name(), bold},
        {StateText(job.state()), StateColour(job.state())},
        absl::StrCat(RunningRanks(job), "/", job.spec().ranks()),
        StepsText(job),
        StepText(StepSeconds(model, job)),
        ShareText(telemetry != nullptr && telemetry->step_s() > 0,
                  telemetry == nullptr ? 0 : telemetry->wait_share()),
        ShareText(has_mfu, job.progress().mfu()),
        RateOf(job),
        Sparkline(recent, kSparkColumns, style.utf8),
        {job.id(), bold},
        {NewsOf(model, job), HasSlow(model, job) ? Colour::kYellow : Colour::kNone}};
    if (style.interactive) row.insert(row.begin(), marked ? ">" : " ");
    table.Add(std::move(row));
  }
  return SplitLines(table.Rendered(style.width, style.colours));
}

// "1.65": its own time over the median; empty: not known.
double SlownessOf(const v1::JobRanks& ranks, const v1::RankTelemetry& rank) {
  if (rank.own_s() > 0 && ranks.median_own_s() > 0) return rank.own_s() / ranks.median_own_s();
  if (rank.step_s() > 0 && ranks.median_step_s() > 0) return rank.step_s() / ranks.median_step_s();
  return 0;
}

std::string MemoryText(const v1::RankTelemetry& rank) {
  if (rank.device_bytes() > 0) {
    return rank.device_capacity_bytes() > 0
               ? absl::StrFormat("%s %.0f %%", BytesText(rank.device_bytes()),
                                 100.0 * rank.device_bytes() / rank.device_capacity_bytes())
               : BytesText(rank.device_bytes());
  }
  return rank.host_bytes() > 0 ? BytesText(rank.host_bytes()) : "";
}

std::string DoingText(const v1::RankTelemetry& rank) {
  if (rank.has_verdict()) {
    return absl::StrFormat("SLOW %.2f x, %s", rank.verdict().slowdown(),
                           WordOf(rank.verdict().cause()));
  }
  if (rank.state() != v1::TRAINER_RUNNING) return StateText(rank.state());
  const std::string phase = PhaseText(rank.phase());
  return rank.phase_s() < 1 ? phase : absl::StrCat(phase, " ", DurationText(rank.phase_s()));
}

std::vector<std::string> RankRows(const TopModel& model, const TopView& view,
                                  const TopStyle& style) {
  Table table({{"RANK", true},
               {"NODE"},
               {"STEP", true},
               {"STEP TIME", true},
               {"OWN", true, true},
               {"X MEDIAN", true},
               {"WAIT", true},
               {"DATA", true, true},
               {"MEMORY", true, true},
               {"MFU", true, true},
               {"RATE", true, true},
               {"DOING"}});
  for (const v1::RankTelemetry* rank : ShownRanks(model, view)) {
    const double slowness = SlownessOf(model.ranks, *rank);
    const bool slow = rank->has_verdict() || slowness > kSlowRatio;
    const Colour colour = rank->has_verdict() ? Colour::kRed
                          : slow              ? Colour::kYellow
                                              : Colour::kNone;
    table.Add({{absl::StrCat(rank->rank()), colour},
               {rank->node(), colour},
               absl::StrCat(rank->step()),
               StepText(rank->step_s()),
               StepText(rank->own_s()),
               {slowness > 0 ? absl::StrFormat("%.2f", slowness) : "", colour},
               ShareText(rank->own_s() > 0, rank->wait_share()),
               ShareText(rank->step_s() > 0, rank->data_wait_share()),
               MemoryText(*rank),
               ShareText(rank->has_mfu(), rank->mfu()),
               ShortRate(rank->tokens_per_s() > 0 ? rank->tokens_per_s() : rank->samples_per_s()),
               {DoingText(*rank), colour}});
  }
  return SplitLines(table.Rendered(style.width, style.colours));
}

// Two lines about the one job that is shown.
std::vector<std::string> JobHead(const TopModel& model, const TopView& view,
                                 const TopStyle& style) {
  const auto at = std::find_if(model.jobs.begin(), model.jobs.end(),
                               [&](const v1::Job& job) { return job.id() == view.job; });
  if (at == model.jobs.end()) return {NeutralLine(view.job), "waiting for what it does"};
  const v1::Job& job = *at;
  std::vector<std::string> facts = {absl::StrCat("step ", StepsText(job))};
  const double step_s = StepSeconds(model, job);
  if (step_s > 0) facts.push_back(absl::StrCat(StepText(step_s), " a step"));
  if (!RateOf(job).empty()) {
    facts.push_back(
        absl::StrCat(RateOf(job), job.progress().tokens_per_s() > 0 ? " tokens/s" : " samples/s"));
  }
  if (job.progress().has_mfu()) {
    facts.push_back(absl::StrCat("MFU ", ShareText(true, job.progress().mfu())));
  }
  if (job.progress().step() > 0) {
    facts.push_back(absl::StrCat("loss ", LossText(job.progress().loss())));
  }
  facts.push_back(absl::StrCat(RunningRanks(job), "/", job.spec().ranks(), " ranks by ",
                               NameOf(view.rank_order), view.reversed ? " (reversed)" : ""));
  const std::string name =
      absl::StrCat(NeutralLine(job.spec().name()), " (", NeutralLine(job.id()), ")  ");
  return {absl::StrCat(Painted(name, Colour::kBold, style.colours),
                       Painted(StateText(job.state()), StateColour(job.state()), style.colours),
                       "  ", absl::StrJoin(facts, ", ")),
          Painted(NewsOf(model, job), HasSlow(model, job) ? Colour::kYellow : Colour::kNone,
                  style.colours)};
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
          "  STEP TIME  mean of the latest steps     OWN   what of it is not waiting for others",
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
                      "s sort  r reverse  / filter  h help  q quit");
}

// The rows that fit, with those that the cursor or the scrolling asks for.
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
        all ? JobRows(model, view, style) : RankRows(model, view, style);
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
