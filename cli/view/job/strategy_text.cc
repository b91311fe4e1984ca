#include "cli/view/job/strategy_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/numbers.h"
#include "common/job_spec/ladder_text.h"
#include "proto/status.pb.h"

namespace paceline {
namespace {

bool HasRounds(const v1::Rank& rank) { return rank.figures().slipstream().rounds() > 0; }

int64_t LostSteps(const v1::SlipstreamFigures& figures) {
  return figures.lost_updates() + figures.dropped_gradients();
}

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// Figures of the rank that knows the most rounds.
v1::SlipstreamFigures NewestFigures(const v1::Job& job) {
  v1::SlipstreamFigures newest;
  for (const v1::Rank& rank : job.ranks()) {
    const v1::SlipstreamFigures& figures = rank.figures().slipstream();
    if (figures.rounds() > newest.rounds()) newest = figures;
  }
  return newest;
}

}  // namespace

std::string PlanFailureText(const v1::Job& job) {
  for (const v1::Rank& rank : job.ranks()) {
    if (rank.plan().failed_version() == 0 || rank.plan().failed_version() != job.plan().version()) {
      continue;
    }
    return absl::StrCat("rank ", rank.rank(),
                        " could not prepare it: ", SanitizeLine(rank.plan().error()));
  }
  return "";
}

absl::StatusOr<v1::SlipstreamWindow> ParseWindow(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  std::vector<int64_t> steps;
  for (const absl::string_view part : parts) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1) break;
    steps.push_back(number);
  }
  if (steps.size() != parts.size() || steps.size() < 2 || steps.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text,
                     "\" is no window: it is MIN:MAX or MIN:MAX:CAP, each 1 step or more, such as "
                     "2:16:64"));
  }
  v1::SlipstreamWindow window;
  window.set_min_steps(steps[0]);
  window.set_max_steps(steps[1]);
  if (steps.size() == 3) window.set_max_cap(steps[2]);
  return window;
}

std::string RoundsText(const v1::Job& job) {
  const v1::SlipstreamFigures newest = NewestFigures(job);
  if (newest.rounds() == 0) return "";
  std::string text = absl::StrCat(
      newest.rounds(), " rounds, ",
      PercentText(Share(newest.contributing_ranks(), newest.rounds() * job.ranks_size())),
      " of the ranks in each");
  if (HasWindow(newest.mode())) {
    absl::StrAppend(&text, ", window ", ShortDurationText(newest.window_s()), ", cap ",
                    newest.cap(), " steps");
  }
  int64_t lost = 0;
  int64_t steps = 0;
  for (const v1::Rank& rank : job.ranks()) {
    lost += LostSteps(rank.figures().slipstream());
    steps += rank.figures().slipstream().steps();
  }
  absl::StrAppend(&text, ", ", PercentText(Share(lost, steps)), " of the steps dropped");
  if (newest.drift() > 0) absl::StrAppend(&text, ", drift ", LossText(newest.drift()));
  return text;
}

std::string RoundTable(const v1::Job& job, int width, bool colours) {
  Table table({{"RANK", true},
               {"STEPS", true},
               {"DROPPED", true},
               {"ROUNDS", true},
               {"IN", true},
               {"STALE", true},
               {"CAP WAIT", true},
               {"ROUND WAIT", true},
               {"COLLECTIVES", true}});
  bool any = false;
  for (const v1::Rank& rank : job.ranks()) {
    if (!HasRounds(rank)) continue;
    any = true;
    const v1::SlipstreamFigures& figures = rank.figures().slipstream();
    table.Add({absl::StrCat(rank.rank()), absl::StrCat(figures.steps()),
               absl::StrCat(LostSteps(figures)), absl::StrCat(figures.rounds()),
               PercentText(Share(figures.contributions(), figures.rounds())),
               absl::StrFormat("%.2f", Share(figures.stale_rounds(), figures.contributions())),
               DurationText(figures.cap_wait_s()), DurationText(figures.round_wait_s()),
               DurationText(figures.collective_s())});
  }
  return any ? table.Rendered(width, colours) : "";
}

}  // namespace paceline
