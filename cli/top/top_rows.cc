#include "cli/top/top_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/text/reported_once.h"
#include "cli/text/sanitize.h"
#include "cli/text/sparkline.h"
#include "cli/text/table.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/figures_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "cli/view/straggler/straggler_text.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "proto/straggler.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

constexpr int kSparkColumns = 12;
// Ratio to the median from which a value is coloured.
constexpr double kSlowRatio = 1.2;

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
    subject = absl::StrCat("rank ", verdict.rank(), " on ", SanitizeLine(verdict.node()));
  } else {
    subject = verdict.node().empty() ? absl::StrCat("peer group ", verdict.peer_group())
                                     : absl::StrCat("node ", SanitizeLine(verdict.node()));
  }
  return absl::StrFormat("%s %.2f x, %s", subject, verdict.slowdown(), WordOf(verdict.cause()));
}

// What to say about a job: why it does not train, who is slow, and what is done about it.
std::string NewsOf(const TopModel& model, const v1::Job& job) {
  const v1::JobTelemetry* telemetry = TelemetryOf(model, job.id());
  std::vector<std::string> news;
  ReportedOnce reported;
  if (const std::string trouble = SaveTroubleText(job, model.fetched); !trouble.empty()) {
    news.push_back(reported.Tell(trouble));
  }
  if (const std::string trouble = CopyTroubleText(job); !trouble.empty()) {
    news.push_back(reported.Tell(trouble));
  }
  if (job.state() != v1::RUNNING && !job.reason().empty()) {
    news.push_back(reported.Tell(SanitizeLine(job.reason())));
  }
  if (telemetry != nullptr && telemetry->slow_count() > 0 && telemetry->slow_size() > 0) {
    news.push_back(absl::StrCat("slow: ", SlowText(telemetry->slow(0))));
    if (telemetry->slow_count() > 1) {
      news.back() += absl::StrCat(", and ", telemetry->slow_count() - 1, " more");
    }
  }
  if (telemetry != nullptr && !telemetry->decision().empty() &&
      telemetry->decision_state() != v1::DECISION_WITHDRAWN) {
    news.push_back(absl::StrCat(SanitizeLine(telemetry->decision()), " ",
                                WordOf(telemetry->decision_state())));
  }
  if (news.empty()) news.push_back(SanitizeLine(job.reason()));
  return absl::StrJoin(news, "; ");
}

// Red: completed steps may be lost.
Colour NewsColour(const TopModel& model, const v1::Job& job) {
  if (!SaveTroubleText(job, model.fetched).empty() || !CopyTroubleText(job).empty()) {
    return Colour::kRed;
  }
  const v1::JobTelemetry* telemetry = TelemetryOf(model, job.id());
  const bool slow = telemetry != nullptr && telemetry->slow_count() > 0;
  return slow ? Colour::kYellow : Colour::kNone;
}

int RunningRanks(const v1::Job& job) {
  return static_cast<int>(
      std::count_if(job.ranks().begin(), job.ranks().end(),
                    [](const v1::Rank& rank) { return rank.state() == v1::TRAINER_RUNNING; }));
}

std::string RateOf(const v1::Job& job) {
  if (job.state() != v1::RUNNING) return "";
  const double tokens = TokensPerSecond(job);
  return ShortRate(tokens > 0 ? tokens : job.progress().samples_per_s());
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();  // The empty part after the last newline.
  return lines;
}

// "1.65": own time relative to the median; empty: not known.
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

std::string DoingText(const v1::RankTelemetry& rank, absl::Time now) {
  if (rank.has_last_heard()) return LastHeardText(rank.last_heard(), now);
  if (rank.has_verdict()) {
    return absl::StrFormat("SLOW %.2f x, %s", rank.verdict().slowdown(),
                           WordOf(rank.verdict().cause()));
  }
  if (rank.state() != v1::TRAINER_RUNNING) return StateText(rank.state());
  const std::string phase = PhaseText(rank);
  return rank.phase_s() < 1 ? phase : absl::StrCat(phase, " ", DurationText(rank.phase_s()));
}

}  // namespace

std::vector<std::string> JobRows(const TopModel& model, const TopView& view,
                                 const TopStyle& style) {
  // Among the columns that may be left out, the least important are to the right.
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
  // The cursor works without colours.
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
    std::vector<Table::Cell> row = {{job.spec().name(), bold},
                                    {StateText(job.state()), StateColour(job.state())},
                                    absl::StrCat(RunningRanks(job), "/", job.spec().ranks()),
                                    StepsDoneText(job),
                                    StepText(StepSeconds(model, job)),
                                    ShareText(telemetry != nullptr && telemetry->step_s() > 0,
                                              telemetry == nullptr ? 0 : telemetry->wait_share()),
                                    ShareText(has_mfu, job.progress().mfu()),
                                    RateOf(job),
                                    Sparkline(recent, kSparkColumns, style.utf8),
                                    {job.id(), bold},
                                    {NewsOf(model, job), NewsColour(model, job)}};
    if (style.interactive) row.insert(row.begin(), marked ? ">" : " ");
    table.Add(std::move(row));
  }
  return SplitLines(table.Rendered(style.width, style.colours));
}

std::vector<std::string> RankRows(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now) {
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
    if (rank->has_last_heard()) {  // Its figures date from then.
      std::vector<Table::Cell> row = {absl::StrCat(rank->rank()), rank->node(),
                                      absl::StrCat(rank->step())};
      row.resize(11, Table::Cell(""));
      row.push_back({DoingText(*rank, now), Colour::kYellow});
      table.Add(std::move(row));
      continue;
    }
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
               {DoingText(*rank, now), colour}});
  }
  return SplitLines(table.Rendered(style.width, style.colours));
}

std::vector<std::string> JobHead(const TopModel& model, const TopView& view,
                                 const TopStyle& style) {
  const auto at = std::find_if(model.jobs.begin(), model.jobs.end(),
                               [&](const v1::Job& job) { return job.id() == view.job; });
  if (at == model.jobs.end()) return {SanitizeLine(view.job), "waiting for what it does"};
  const v1::Job& job = *at;
  std::vector<std::string> facts;
  if (MakesSteps(job)) facts.push_back(absl::StrCat("step ", StepsDoneText(job)));
  const double step_s = StepSeconds(model, job);
  if (step_s > 0) facts.push_back(absl::StrCat(StepText(step_s), " a step"));
  if (!RateOf(job).empty()) {
    facts.push_back(
        absl::StrCat(RateOf(job), TokensPerSecond(job) > 0 ? " tokens/s" : " samples/s"));
  }
  if (job.progress().has_mfu()) {
    facts.push_back(absl::StrCat("MFU ", ShareText(true, job.progress().mfu())));
  }
  const std::string loss = KnownLossText(job.progress().loss());
  if (job.progress().step() > 0 && !loss.empty()) facts.push_back(absl::StrCat("loss ", loss));
  facts.push_back(absl::StrCat(RunningRanks(job), "/", job.spec().ranks(), " ranks by ",
                               NameOf(view.rank_order), view.reversed ? " (reversed)" : ""));
  const std::string name =
      absl::StrCat(SanitizeLine(job.spec().name()), " (", SanitizeLine(job.id()), ")  ");
  return {absl::StrCat(Painted(name, Colour::kBold, style.colours),
                       Painted(StateText(job.state()), StateColour(job.state()), style.colours),
                       "  ", absl::StrJoin(facts, ", ")),
          Painted(NewsOf(model, job), NewsColour(model, job), style.colours)};
}

}  // namespace paceline
