#include "cli/view/job/progress_line.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/view/job/figures_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

constexpr int kLongestBar = 30;
constexpr int kShortestBar = 10;
constexpr int kLongestName = 24;

// Progress of the rank with the most of an evaluation left; null: none evaluates.
const v1::Progress* Evaluation(const v1::Job& job) {
  if (job.state() != v1::RUNNING) return nullptr;
  const auto left = [](const v1::Progress& rank) {
    return rank.evaluation_batches() - rank.evaluated_batches();
  };
  const v1::Progress* last = nullptr;
  for (const v1::Rank& rank : job.ranks()) {
    if (rank.state() != v1::TRAINER_RUNNING || rank.progress().phase() != v1::EVALUATING) continue;
    if (last == nullptr || left(rank.progress()) > left(*last)) last = &rank.progress();
  }
  return last;
}

// Seconds left of it at the pace so far; -1: not known.
double SecondsToEvaluate(const v1::Progress& evaluation) {
  if (evaluation.evaluated_batches() <= 0) return -1;
  const int64_t left = evaluation.evaluation_batches() - evaluation.evaluated_batches();
  return evaluation.phase_s() * static_cast<double>(left) /
         static_cast<double>(evaluation.evaluated_batches());
}

// Facts, the most important first.
std::vector<std::string> Facts(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  std::vector<std::string> facts = {absl::StrCat("step ", StepsDoneText(job))};
  const v1::Progress* evaluation = Evaluation(job);
  if (evaluation != nullptr) facts.push_back(PhaseText(*evaluation));
  if (progress.step() == 0) return facts;
  if (const std::string loss = KnownLossText(progress.loss()); !loss.empty()) {
    facts.push_back(absl::StrCat("loss ", loss));
  }
  if (const std::string pace = PaceText(job); !pace.empty()) facts.push_back(pace);
  const double eta = SecondsToGo(job);
  if (const std::string other = OtherRanksText(job); !other.empty()) facts.push_back(other);
  // When all steps are done and no batch was evaluated yet, the duration cannot be estimated.
  if (eta > 0 && job.state() == v1::RUNNING) {
    facts.push_back(absl::StrCat("eta ", DurationText(eta)));
  }
  if (HasAccuracy(job)) {
    facts.push_back(absl::StrCat("accuracy ", PercentText(job.evaluation().accuracy())));
  }
  const v1::JobCheckpoints& checkpoints = job.checkpoints();
  const std::string newest =
      checkpoints.complete() > 0 ? absl::StrCat("checkpoint ", checkpoints.newest_step()) : "";
  if (!checkpoints.last_error().empty() && !HasEnded(job.state())) {
    facts.insert(facts.begin() + 1, newest.empty() ? "no checkpoint: saves fail"
                                                   : absl::StrCat(newest, ", saves fail"));
  } else if (!newest.empty()) {
    facts.push_back(newest);
  }
  if (job.restarts() > 0) facts.push_back(absl::StrCat("restart ", job.restarts()));
  return facts;
}

}  // namespace

std::string BarText(double share, int length) {
  const int cells = length - 2;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * cells);
  std::string bar(static_cast<size_t>(full), '=');
  if (full < cells) bar += full > 0 ? '>' : ' ';
  bar.resize(static_cast<size_t>(cells), ' ');
  return absl::StrCat("[", bar, "]");
}

double SecondsToGo(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  if (job.spec().steps() == 0) return -1;
  const int64_t left = job.spec().steps() - progress.step();
  const v1::Progress* evaluation = Evaluation(job);
  const double evaluating = evaluation == nullptr ? 0 : SecondsToEvaluate(*evaluation);
  if (left < 0 || evaluating < 0) return -1;
  if (left == 0) return evaluating;
  const double pace = StepsPerSecond(job);
  return pace > 0 ? evaluating + static_cast<double>(left) / pace : -1;
}

std::string ProgressBar(const v1::Job& job, int width) {
  const std::string name = Shortened(SanitizeLine(job.spec().name()), kLongestName);
  if (!MakesSteps(job) || (job.state() != v1::RUNNING && job.progress().step() == 0)) {
    const std::string why = job.reason().empty() ? "" : absl::StrCat(": ", job.reason());
    return Shortened(absl::StrCat(name, "  ", StateText(job.state()), SanitizeLine(why)), width);
  }
  const std::vector<std::string> facts = Facts(job);
  std::string text = job.state() == v1::RECOVERING
                         ? absl::StrCat(StateText(job.state()), "  ", facts[0])
                         : facts[0];
  int room = width - DisplayWidth(name) - 4 - kShortestBar;
  for (size_t i = 1; i < facts.size(); ++i) {
    if (DisplayWidth(text) + 2 + DisplayWidth(facts[i]) > room) break;
    absl::StrAppend(&text, "  ", facts[i]);
  }
  room = width - DisplayWidth(name) - DisplayWidth(text) - 4;
  if (room < kShortestBar) return Shortened(absl::StrCat(name, "  ", text), width);
  const double share = static_cast<double>(job.progress().step()) /
                       static_cast<double>(std::max<int64_t>(1, job.spec().steps()));
  return absl::StrCat(name, "  ", BarText(share, std::min(room, kLongestBar)), "  ", text);
}

std::string ProgressText(const v1::Job& job, ReportedOnce* reported) {
  std::string text = absl::StrCat(SanitizeLine(job.spec().name()), " ", StateText(job.state()));
  if (MakesSteps(job) && (job.state() == v1::RUNNING || job.progress().step() > 0)) {
    absl::StrAppend(&text, " ", absl::StrJoin(Facts(job), " "));
  }
  const bool well = job.state() == v1::RUNNING || job.state() == v1::SUCCEEDED;
  if (!well && !job.reason().empty()) {
    absl::StrAppend(&text, " (", TellOnce(reported, SanitizeLine(job.reason())), ")");
  }
  return text;
}

}  // namespace paceline
