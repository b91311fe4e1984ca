#include "controller/core/recovery/blame.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

// By value of paceline.v1.Phase.
constexpr std::array<const char*, 9> kPhaseNames = {"idle",      "data wait",     "forward",
                                                    "backward",  "communication", "optimizer",
                                                    "averaging", "round wait",    "evaluation"};
constexpr int kIdle = 0;
constexpr int kCommunication = 4;
constexpr int kAveraging = 6;
constexpr int kRoundWait = 7;
constexpr int kEvaluating = 8;

// Whether the rank has been busy with something of its own for a while.
bool IsStuck(const RankState& rank) {
  if (!rank.report.exit.has_value()) return false;
  const TrainerExit& exit = *rank.report.exit;
  return exit.failure == FailureKind::kNone && exit.phase > kIdle && exit.phase != kCommunication &&
         exit.phase != kAveraging && exit.phase != kRoundWait && exit.phase != kEvaluating &&
         exit.in_phase >= kStuck;
}

}  // namespace

const char* PhaseName(int phase) {
  const bool known = phase >= 0 && phase < static_cast<int>(kPhaseNames.size());
  return known ? kPhaseNames[static_cast<size_t>(phase)] : "an unknown phase";
}

bool IsEcho(const TrainerExit& exit) { return exit.failure == FailureKind::kCollective; }

std::optional<JobFailure> FindStuckRank(const std::vector<RankState>& ranks,
                                        const JobFailure& echo) {
  const RankState* longest = nullptr;
  for (const RankState& rank : ranks) {
    if (IsStuck(rank) &&
        (longest == nullptr || rank.report.exit->in_phase > longest->report.exit->in_phase)) {
      longest = &rank;
    }
  }
  if (longest == nullptr) return std::nullopt;
  JobFailure stuck{longest->report.id.rank, longest->slot.node, *longest->report.exit};
  stuck.exit.failure = FailureKind::kCollective;
  stuck.exit.message = absl::StrFormat(
      "did not come to the collective that the others waited in: in %s of step %d for %.1f s "
      "(rank %d: %s)",
      PhaseName(stuck.exit.phase), stuck.exit.step, absl::ToDoubleSeconds(stuck.exit.in_phase),
      echo.rank.value(), echo.exit.message);
  return stuck;
}

}  // namespace paceline
