#include "controller/core/recovery/hang.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/blame.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// Values of paceline.v1.Phase.
constexpr int kIdle = 0;
constexpr int kCommunication = 4;
constexpr int kAveraging = 6;
constexpr int kRoundWait = 7;
constexpr int kEvaluating = 8;

constexpr size_t kLateReported = 3;  // How many ranks are named.

// Of a sharded model: whether all ranks that train count their collectives. Trainers and daemons of
// an earlier release do not, and one of these ranks may be whom the others wait for.
bool AllCountCollectives(const Job& job) {
  return job.request.shards > 1 &&
         std::none_of(job.ranks.begin(), job.ranks.end(), [](const RankState& rank) {
           return rank.report.state == TrainerState::kRunning &&
                  rank.report.progress.collectives == 0;
         });
}

// How far a rank of a sharded model has come: those of a replica enter the same collectives. Means
// something only if AllCountCollectives; `counted` in the functions below says whether that holds.
std::pair<int64_t, int64_t> PointOf(const RankState& rank) {
  return {rank.report.progress.step, rank.report.progress.collectives};
}

// The ranks of the rank's replica that train in the same generation; ranks of a sharded model only.
std::vector<const RankState*> ReplicaOf(const Job& job, const RankState& rank) {
  const auto shards = static_cast<size_t>(job.request.shards);
  const auto index = static_cast<size_t>(&rank - job.ranks.data());
  const size_t first = index - index % shards;
  std::vector<const RankState*> replica;
  for (size_t r = first; r < std::min(first + shards, job.ranks.size()); ++r) {
    const RankState& other = job.ranks[r];
    if (other.report.membership.generation == rank.report.membership.generation) {
      replica.push_back(&other);
    }
  }
  return replica;
}

// Whether ranks of its replica have entered fewer collectives than the rank, or more.
struct InReplica {
  bool is_ahead = false;
  bool is_behind = false;
};
InReplica CompareInReplica(const Job& job, const RankState& rank, bool counted) {
  InReplica compared;
  if (!counted) return compared;
  for (const RankState* other : ReplicaOf(job, rank)) {
    compared.is_ahead = compared.is_ahead || PointOf(*other) < PointOf(rank);
    compared.is_behind = compared.is_behind || PointOf(rank) < PointOf(*other);
  }
  return compared;
}

bool WaitsForOthers(const Job& job, const RankState& rank, bool counted) {
  const Progress& progress = rank.report.progress;
  const int phase = progress.phase;
  const bool has_evaluated =
      phase == kEvaluating && progress.evaluated_batches == progress.evaluation_batches;
  const bool shows_it =
      phase == kCommunication || phase == kAveraging || phase == kRoundWait || has_evaluated;
  if (rank.report.suspended) return false;
  const InReplica in_replica = CompareInReplica(job, rank, counted);
  return in_replica.is_ahead || (shows_it && !in_replica.is_behind);
}

// Of ranks that hang and wait for nobody: whether `rank` rather than `other` is the cause.
bool IsCauseRather(const RankState& rank, const RankState& other, bool counted) {
  if (counted) {
    const auto key = [](const RankState& one) {
      return std::make_tuple(!one.report.suspended, PointOf(one), one.progressed);
    };
    return key(rank) < key(other);
  }
  return rank.progressed < other.progressed || (rank.report.suspended && !other.report.suspended);
}

// Since when the rank has made no step; infinite future: that means nothing, for example because a
// command that has made no steps may never make one.
absl::Time StuckSince(const Job& job, const RankState& rank) {
  if (rank.report.state != TrainerState::kRunning || IsLost(rank) ||
      rank.unreachable_since != absl::InfiniteFuture() || rank.progressed == absl::InfinitePast() ||
      (!HasEngine(job.request) && rank.report.progress.step == 0)) {
    return absl::InfiniteFuture();
  }
  return rank.progressed;
}

absl::Duration Patience(const Job& job, const RankState& rank, absl::Duration usual) {
  const bool first_steps =
      rank.first_step < 0 || rank.report.progress.step - rank.first_step < kFirstSteps;
  return first_steps ? std::max(usual, job.request.timeouts.startup) : usual;
}

bool Hangs(const Job& job, const RankState& rank, absl::Time now) {
  const absl::Time since = StuckSince(job, rank);
  return since != absl::InfiniteFuture() &&
         std::min(now, rank.heard) - since >= Patience(job, rank, job.request.timeouts.hang);
}

// Of a sharded model: whether a rank that is behind this one goes on, or does not answer. Then the
// others may wait for that one.
bool IsAheadOfAnother(const Job& job, const RankState& rank, bool counted, absl::Time now) {
  if (!counted) return false;
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& other) {
    return other.report.membership.generation == rank.report.membership.generation &&
           PointOf(other) < PointOf(rank) && !Hangs(job, other, now);
  });
}

// With Slipstream: a rank that has made a step after the latest of `culprit`, which is stuck in one
// phase. Null: none has, or it proves nothing, as work between steps, such as a save, may be long.
const RankState* WhoGoesOn(const Job& job, const RankState& culprit) {
  const Progress& progress = culprit.report.progress;
  if (!job.plan.slipstream.has_value() || progress.phase == kIdle ||
      progress.phase == kEvaluating || progress.in_phase < job.request.timeouts.hang) {
    return nullptr;
  }
  for (const RankState& rank : job.ranks) {
    const absl::Time since = StuckSince(job, rank);
    if (since != absl::InfiniteFuture() && since > culprit.progressed) return &rank;
  }
  return nullptr;
}

// "5 min", "2 h 5 min".
std::string WholeText(absl::Duration time) {
  const int64_t minutes = absl::ToInt64Minutes(time);
  if (minutes == 0) return absl::StrCat(absl::ToInt64Seconds(time), " s");
  if (minutes < 60) return absl::StrCat(minutes, " min");
  return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

// Describes the quiet ranks of a job whose own programs make no steps. Nobody knows which rank
// waits for which, so one stands for all.
std::string DescribeQuiet(const Job& job) {
  const RankState* longest = nullptr;
  int others = 0;
  for (const RankState& rank : job.ranks) {
    const absl::Duration quiet = QuietTime(job, rank.report);
    if (quiet == absl::ZeroDuration() || rank.unreachable_since != absl::InfiniteFuture()) continue;
    if (longest != nullptr) ++others;
    if (longest == nullptr || quiet > QuietTime(job, longest->report)) longest = &rank;
  }
  if (longest == nullptr) return "";
  return absl::StrCat("rank ", RankOf(job, *longest).value(), " on ", longest->slot.node.value(),
                      " has been quiet for ", WholeText(QuietTime(job, longest->report)),
                      longest->report.suspended ? " (its process is stopped)" : "",
                      ": no output, almost no processor time",
                      others > 0 ? absl::StrCat("; so have ", others, " more") : "");
}

// ", while rank 1 waits for it", and how that is known.
std::string WhoWaits(const Job& job, const RankState& culprit, const RankState& victim,
                     bool counted) {
  if (counted) {
    for (const RankState* other : ReplicaOf(job, culprit)) {
      if (!(PointOf(culprit) < PointOf(*other))) continue;
      return absl::StrCat(", while rank ", RankOf(job, *other).value(),
                          " of its replica waits for it in a later collective");
    }
  }
  return absl::StrCat(", while rank ", RankOf(job, victim).value(), " waits for it");
}

std::string WhereIs(const RankState& rank, absl::Time now) {
  return absl::StrFormat("in %s of step %d, without a step for %.1f s",
                         PhaseName(rank.report.progress.phase), rank.report.progress.step,
                         absl::ToDoubleSeconds(now - rank.progressed));
}

}  // namespace

std::optional<HangVerdict> FindHung(const Job& job, absl::Time steady_now) {
  // Nobody knows which rank waits for which in a program that trains by itself.
  if (!HasEngine(job.request)) return std::nullopt;
  const bool counted = AllCountCollectives(job);
  const RankState* culprit = nullptr;
  const RankState* victim = nullptr;
  bool all_wait = !job.ranks.empty();
  for (const RankState& rank : job.ranks) {
    const bool hangs = Hangs(job, rank, steady_now);
    const bool waits = hangs && WaitsForOthers(job, rank, counted);
    all_wait = all_wait && waits;
    if (!hangs) continue;
    if (waits) {
      if (victim == nullptr) victim = &rank;
    } else if (culprit == nullptr || IsCauseRather(rank, *culprit, counted)) {
      culprit = &rank;
    }
  }
  HangVerdict verdict;
  if (all_wait && job.ranks.size() > 1) {
    verdict.all_wait = true;
    verdict.why = absl::StrCat("all ranks wait in collectives, rank 0 ",
                               WhereIs(job.ranks.front(), steady_now));
    return verdict;
  }
  if (culprit == nullptr) return std::nullopt;
  const bool is_certain =
      culprit->report.suspended || !IsAheadOfAnother(job, *culprit, counted, steady_now);
  if (!is_certain) return std::nullopt;
  const RankState* const goes_on = victim == nullptr ? WhoGoesOn(job, *culprit) : nullptr;
  if (victim == nullptr && goes_on == nullptr && !culprit->report.suspended) return std::nullopt;
  verdict.rank = RankOf(job, *culprit);
  verdict.why = absl::StrCat("hangs", culprit->report.suspended ? " (its process is stopped)" : "",
                             " ", WhereIs(*culprit, steady_now));
  if (victim != nullptr) {
    absl::StrAppend(&verdict.why, WhoWaits(job, *culprit, *victim, counted));
  } else if (goes_on != nullptr) {
    absl::StrAppend(&verdict.why, ", while rank ", RankOf(job, *goes_on).value(), " makes steps");
  }
  return verdict;
}

absl::Duration QuietTime(const Job& job, const TrainerReport& report) {
  const Progress& progress = report.progress;
  if (HasEngine(job.request) || report.state != TrainerState::kRunning || progress.step > 0 ||
      progress.phase != kIdle || progress.in_phase < job.request.timeouts.stall_warning) {
    return absl::ZeroDuration();
  }
  return absl::Floor(progress.in_phase,
                     progress.in_phase < absl::Minutes(1) ? absl::Seconds(1) : absl::Minutes(1));
}

std::string DescribeStall(const Job& job, absl::Time steady_now) {
  const bool counted = AllCountCollectives(job);
  const RankState* slowest = nullptr;
  for (const RankState& rank : job.ranks) {
    const absl::Time since = StuckSince(job, rank);
    if (since == absl::InfiniteFuture() || HoldsState(rank) ||
        steady_now - since < Patience(job, rank, job.request.timeouts.stall_warning) ||
        WaitsForOthers(job, rank, counted)) {
      continue;
    }
    if (slowest == nullptr || since < slowest->progressed) slowest = &rank;
  }
  if (slowest == nullptr) return DescribeQuiet(job);
  return absl::StrCat("rank ", RankOf(job, *slowest).value(), " on ", slowest->slot.node.value(),
                      " is slow: ", WhereIs(*slowest, steady_now));
}

std::string DescribeStart(const Job& job, absl::Time wall_now) {
  if (job.state != JobState::kStarting || wall_now - job.placed < kStartPatience) return "";
  const auto starts = [](const RankState& rank) {
    return rank.report.state == TrainerState::kStarting;
  };
  const bool all_ready = std::none_of(job.ranks.begin(), job.ranks.end(), starts);
  std::vector<std::string> late;
  for (const RankState& rank : job.ranks) {
    if (!starts(rank) && !(all_ready && rank.report.state == TrainerState::kReady)) continue;
    late.push_back(absl::StrCat("rank ", RankOf(job, rank).value(), " on ", rank.slot.node.value(),
                                rank.report.suspended ? " (its process is stopped)" : ""));
  }
  if (late.empty()) return "";
  const size_t reported = std::min(kLateReported, late.size());
  std::string text =
      absl::StrJoin(late.begin(), late.begin() + static_cast<int64_t>(reported), ", ");
  if (reported < late.size()) absl::StrAppend(&text, " and ", late.size() - reported, " more");
  const absl::Duration since = absl::Floor(wall_now - job.placed, kStartInterval);
  return absl::StrCat(all_ready ? "no rendezvous after " : "not ready after ",
                      absl::ToInt64Seconds(since), " s: ", text);
}

absl::Time NextHangCheck(const Job& job, absl::Time steady_now) {
  absl::Time next = absl::InfiniteFuture();
  for (const RankState& rank : job.ranks) {
    const absl::Time since = StuckSince(job, rank);
    if (since == absl::InfiniteFuture()) continue;
    for (const absl::Duration limit :
         {job.request.timeouts.stall_warning, job.request.timeouts.hang}) {
      const absl::Time due = since + Patience(job, rank, limit);
      if (due > steady_now) next = std::min(next, due);
    }
  }
  return next;
}

void NoteProgress(RankState& trainer, const TrainerReport& before, Moment now) {
  const TrainerReport& report = trainer.report;
  trainer.heard = now.steady;
  trainer.heard_wall = now.wall;
  if (report.state == TrainerState::kRunning && trainer.first_step < 0) {
    trainer.first_step = report.progress.step;
  }
  const Progress& progress = report.progress;
  const bool evaluates = progress.phase == kEvaluating &&
                         (before.progress.phase != kEvaluating ||
                          progress.evaluated_batches != before.progress.evaluated_batches);
  if (evaluates || progress.step != before.progress.step ||
      progress.collectives != before.progress.collectives || report.state != before.state ||
      report.membership.generation != before.membership.generation ||
      trainer.progressed == absl::InfinitePast()) {
    trainer.progressed = now.steady;
  }
}

}  // namespace paceline
