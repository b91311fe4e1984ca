#include "controller/core/recovery/failure_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

bool IsOwnError(const TrainerExit& exit) {
  switch (exit.failure) {
    case FailureKind::kSignal:
    case FailureKind::kExitCode:
    case FailureKind::kError:
    case FailureKind::kOutOfMemory:
      return true;
    default:
      return false;
  }
}

// Whether the member took part in training in its seat, even if it ended before it could say so. A
// spare that rehearses a step is in phases, too, but has no store yet.
bool TookPart(const Job& job, const RankState& member) {
  const bool is_sharded = job.request.shards > 1;
  if (is_sharded && HasTrained(member) && StateSeat(member) != member.seat) return false;
  if (HasTrained(member)) return true;
  const auto& exit = member.report.exit;
  return exit.has_value() && !member.report.store_address.empty() &&
         (exit->step > 0 || exit->phase != 0);
}

void Add(Job& job, MemberFailure failure, Moment now) {
  failure.steady = now.steady;
  failure.wall = now.wall;
  auto& failures = job.recovery.failures;
  const absl::Time oldest = now.steady - job.request.recovery.window;
  failures.erase(
      std::remove_if(failures.begin(), failures.end(),
                     [&](const MemberFailure& earlier) { return earlier.steady < oldest; }),
      failures.end());
  failures.push_back(failure);
}

std::string Ordinal(size_t n) {
  const char* ending = "th";
  if (n % 100 < 11 || n % 100 > 13) {
    if (n % 10 == 1) ending = "st";
    if (n % 10 == 2) ending = "nd";
    if (n % 10 == 3) ending = "rd";
  }
  return absl::StrCat(n, ending);
}

}  // namespace

void CountLoss(Job& job, RankState& member, Moment now) {
  if (member.counted) return;
  member.counted = true;
  MemberFailure failure;
  failure.seat = member.seat;
  if (TookPart(job, member) && HasFailed(member)) {
    failure.step = member.report.exit->step;
    failure.own_error = IsOwnError(*member.report.exit);
  }
  Add(job, failure, now);
}

void CountTrouble(Job& job, Moment now) { Add(job, MemberFailure(), now); }

void ForgetTrouble(Job& job) {
  auto& failures = job.recovery.failures;
  if (ChangeUnderWay(job) != nullptr && !failures.empty() && failures.back().seat < 0) {
    failures.pop_back();
  }
}

std::string WhyBudgetIsSpent(const Job& job) {
  const RecoveryPolicy& policy = job.request.recovery;
  const size_t count = job.recovery.failures.size();
  if (count <= static_cast<size_t>(policy.max_failures)) return "";
  return absl::StrCat(Ordinal(count), " failure within ", absl::ToDoubleSeconds(policy.window),
                      " s, recovery.max_failures is ", policy.max_failures);
}

std::string WhyHopeless(const Job& job, const RankState& member) {
  if (!HasFailed(member)) return "";
  const FailureKind kind = member.report.exit->failure;
  if (kind == FailureKind::kInput) return "its input cannot be used";
  if (kind == FailureKind::kRestore) return "the checkpoint cannot be used";
  const auto& failures = job.recovery.failures;
  const auto same = std::count_if(failures.begin(), failures.end(), [&](const MemberFailure& f) {
    return f.own_error && f.seat == member.seat && f.step == member.report.exit->step;
  });
  if (same < 2) return "";
  return absl::StrCat("crash loop: the same rank failed at step ", member.report.exit->step,
                      " before");
}

}  // namespace paceline
