#include "controller/core/job/profile.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

Refusal Invalid(std::string message) {
  return {Refusal::Kind::kArgument, "PROFILE_INVALID", std::move(message)};
}

// An elastic job may have more than it asked for.
int RanksOf(const Job& job) {
  return std::max(job.request.ranks, static_cast<int>(job.ranks.size()));
}

std::optional<Refusal> CheckOrder(const Job& job, const ProfileOrder& order) {
  if (order.steps < 0 || order.steps > kMaxProfileSteps) {
    return Invalid(absl::StrCat("steps is ", order.steps, "; allowed is 1 to ", kMaxProfileSteps));
  }
  for (const int rank : order.ranks) {
    if (rank >= 0 && rank < RanksOf(job)) continue;
    return Invalid(absl::StrCat("job ", job.request.id.value(), " has ranks 0 to ",
                                RanksOf(job) - 1, ", not ", rank));
  }
  if (order.memory && job.request.device != Device::kCuda) {
    return Invalid(absl::StrCat("job ", job.request.id.value(),
                                " trains on the CPU: only device cuda has memory snapshots"));
  }
  return std::nullopt;
}

std::vector<Rank> Chosen(const Job& job, const ProfileOrder& order) {
  std::vector<Rank> ranks;
  if (order.ranks.empty()) {
    for (int rank = 0; rank < RanksOf(job); ++rank) ranks.emplace_back(rank);
  } else {
    for (const int rank : order.ranks) ranks.emplace_back(rank);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  }
  return ranks;
}

// How many ranks still owe the newest profile.
int64_t Owing(const Job& job) {
  if (!job.profile.has_value()) return 0;
  return std::count_if(job.profile->ranks.begin(), job.profile->ranks.end(), [&](Rank rank) {
    const TrainerReport& report = job.ranks[static_cast<size_t>(rank.value())].report;
    return report.profile.id != job.profile->id && report.state != TrainerState::kExited;
  });
}

// After this many steps the mean of all tells more than the latest step of the fastest rank: single
// steps differ much when some of them wait for others.
constexpr int64_t kStepsOfAMean = 20;

// Steps per second.
double Pace(const Job& job, absl::Time wall_now) {
  const JobProgress progress = Summarize(job, wall_now);
  const double training_s = absl::ToDoubleSeconds(progress.training);
  double pace = training_s > 0 ? static_cast<double>(progress.step) / training_s : 0;
  if (progress.step >= kStepsOfAMean && pace > 0) return pace;
  for (const RankState& rank : job.ranks) {
    const double step_s = absl::ToDoubleSeconds(rank.report.progress.step_time);
    if (step_s > 0) pace = std::max(pace, 1 / step_s);
  }
  return pace;
}

}  // namespace

std::optional<Refusal> MakeProfile(const Job& job, const ProfileOrder& order, absl::Time wall_now,
                                   JobProfile* profile) {
  if (std::optional<Refusal> refusal = CheckOrder(job, order); refusal.has_value()) return refusal;
  const std::string name = absl::StrCat("job ", job.request.id.value());
  if (job.state != JobState::kRunning) {
    return Refusal{Refusal::Kind::kState, "JOB_NOT_RUNNING",
                   absl::StrCat(name, " does not train: only a running job can be profiled")};
  }
  if (const int64_t owing = Owing(job); owing > 0) {
    return Refusal{Refusal::Kind::kState, "PROFILE_PENDING",
                   absl::StrCat("profile ", job.profile->id, " of ", name, " is not done: ", owing,
                                " of ", job.profile->ranks.size(),
                                " ranks have not answered; try again when they have")};
  }
  const int steps = order.steps == 0 ? kDefaultProfileSteps : order.steps;
  int64_t furthest = 0;
  for (const RankState& rank : job.ranks) {
    furthest = std::max(furthest, rank.report.progress.step);
  }
  const auto lead =
      static_cast<int64_t>(std::ceil(Pace(job, wall_now) * absl::ToDoubleSeconds(kProfileLead)));
  const int64_t latest = job.request.steps - steps;
  if (latest < furthest + kMinProfileLeadSteps) {
    return Refusal{
        Refusal::Kind::kState, "TOO_FEW_STEPS_LEFT",
        absl::StrCat(name, " has ", std::max<int64_t>(0, job.request.steps - furthest),
                     " steps left; a profile of ", steps, " needs ", steps + kMinProfileLeadSteps)};
  }
  profile->id = job.profile.has_value() ? job.profile->id + 1 : 1;
  profile->first_step = std::min(latest, furthest + std::max(lead, kMinProfileLeadSteps));
  profile->steps = steps;
  profile->memory = order.memory;
  profile->ranks = Chosen(job, order);
  return std::nullopt;
}

bool IsProfiled(const Job& job, Rank rank) {
  return job.profile.has_value() &&
         std::binary_search(job.profile->ranks.begin(), job.profile->ranks.end(), rank);
}

}  // namespace paceline
