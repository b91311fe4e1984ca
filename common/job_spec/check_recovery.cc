// What is kept of a job, and how it goes on after failures.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/batch_rule.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

struct Rung {
  const char* name;
  double seconds;
};

std::string DescribeLadder(const std::vector<Rung>& ladder) {
  return absl::StrJoin(ladder, " < ", [](std::string* out, const Rung& rung) {
    absl::StrAppend(out, rung.name, " (", rung.seconds, ")");
  });
}

// Tells the first pair that is out of order, at the field of the lower rung.
void CheckOrder(const std::vector<Rung>& ladder, ProblemList& problems) {
  for (size_t i = 0; i + 1 < ladder.size(); ++i) {
    if (ladder[i].seconds < ladder[i + 1].seconds) continue;
    problems.Add(ladder[i].name,
                 StrCat("is ", ladder[i].seconds, ", not below ", ladder[i + 1].name, " (",
                        ladder[i + 1].seconds, "); timeouts rise: ", DescribeLadder(ladder)));
    return;
  }
}

std::vector<Rung> LadderOf(const v1::JobSpec& spec) {
  return {{"stall_warning_s", spec.stall_warning_s()},
          {"hang_timeout_s", spec.hang_timeout_s()},
          {"collective_timeout_s", spec.collective_timeout_s()},
          {"give_up_s", spec.give_up_s()}};
}

void CheckShrinking(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::Recovery& recovery = spec.recovery();
  if (problems.Tells("recovery.min_ranks") ||
      !problems.CheckRange("recovery.min_ranks", recovery.min_ranks(), 1, spec.ranks())) {
    return;
  }
  // Without whole replicas these numbers say nothing.
  if (problems.Tells("shards")) return;
  if (recovery.min_ranks() % spec.shards() != 0) {
    problems.Add("recovery.min_ranks",
                 StrCat("is ", recovery.min_ranks(), "; allowed are multiples of shards (",
                        spec.shards(), "): a job goes on with whole replicas"));
    return;
  }
  if (recovery.min_ranks() == spec.ranks() || recovery.batch() != v1::KEEP_GLOBAL_BATCH ||
      spec.batch_per_rank() < 1 || spec.accumulation_steps() < 1) {
    return;
  }
  const int most = PossibleRanks(
      BatchRule::kKeepGlobal, spec.ranks(), {spec.batch_per_rank(), spec.accumulation_steps()},
      spec.ranks() - spec.shards(), LeastSamples(spec.model()), spec.shards());
  if (most >= recovery.min_ranks()) return;
  problems.Add("recovery.min_ranks",
               StrCat("is ", recovery.min_ranks(), ", but ",
                      int64_t{spec.ranks()} * spec.batch_per_rank() * spec.accumulation_steps(),
                      " samples per step cannot be shared equally by any number of ranks from "
                      "there to ",
                      spec.ranks() - spec.shards(), most > 0 ? StrCat("; the next is ", most) : "",
                      ". Allow fewer ranks, or give recovery.batch: keep_rank_batch"));
}

// Of a job that recovers from failures.
void CheckGrowth(const v1::JobSpec& spec, ProblemList& problems) {
  constexpr char kKey[] = "recovery.max_ranks";
  const int most = spec.recovery().max_ranks();
  const int ranks = spec.ranks();
  if (most == 0 || problems.Tells(kKey) || problems.Tells("ranks") || problems.Tells("shards")) {
    return;
  }
  if (most < ranks || most % spec.shards() != 0) {
    problems.Add(
        kKey,
        StrCat("is ", most, "; allowed is 0, or ranks (", ranks, ") and more",
               spec.shards() > 1 ? StrCat(", in multiples of shards (", spec.shards(), ")") : ""));
    return;
  }
  if (spec.strategy().has_slipstream() || spec.strategy().has_auto_()) {
    problems.Add(kKey, StrCat("is ", most,
                              " beside strategy slipstream or auto, whose ranks cannot be given "
                              "back between two steps; it needs strategy ddp, local_sgd or hsgd"));
  }
  if (most == ranks || spec.recovery().batch() != v1::KEEP_GLOBAL_BATCH ||
      spec.batch_per_rank() < 1 || spec.accumulation_steps() < 1) {
    return;
  }
  const int possible = PossibleRanks(BatchRule::kKeepGlobal, ranks,
                                     {spec.batch_per_rank(), spec.accumulation_steps()}, most,
                                     LeastSamples(spec.model()), spec.shards(), most);
  if (possible > ranks) return;
  problems.Add(kKey, StrCat("is ", most, ", but ",
                            int64_t{ranks} * spec.batch_per_rank() * spec.accumulation_steps(),
                            " samples per step cannot be shared equally by any number of ranks "
                            "from ",
                            ranks + spec.shards(), " to there. Allow more ranks, give ", ranks,
                            ", or give recovery.batch: keep_rank_batch"));
}

// The same.
void CheckCopies(const v1::JobSpec& spec, ProblemList& problems) {
  constexpr char kKey[] = "recovery.copy_every_steps";
  const int64_t every = spec.recovery().copy_every_steps();
  if (every <= 0 || problems.Tells(kKey) || problems.Tells("ranks")) return;
  if (spec.ranks() < 2) {
    problems.Add(kKey, StrCat("is ", every,
                              ", but the one rank has no other to keep its copy: "
                              "give 0, or ranks above 1"));
  } else if (spec.strategy().has_slipstream() || spec.strategy().has_auto_()) {
    problems.Add(kKey, StrCat("is ", every,
                              " beside strategy slipstream or auto, whose ranks make steps of "
                              "their own, so that there is no step to go back to; give 0, or "
                              "strategy ddp, local_sgd or hsgd"));
  } else if (spec.shards() == 1 && !spec.strategy().has_hsgd()) {
    problems.Add(kKey, StrCat("is ", every,
                              ", but each rank has all of the state already, so copies protect "
                              "nothing; they need shards above 1, or strategy hsgd. Give 0"));
  }
}

}  // namespace

void CheckCheckpoint(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::CheckpointPolicy& checkpoint = spec.checkpoint();
  if (checkpoint.auto_interval() && checkpoint.every_s() > 0) {
    problems.Add("checkpoint.auto_interval",
                 StrCat("is true, but every_s says already that it is every ", checkpoint.every_s(),
                        " s; give one of them"));
  }
  if (checkpoint.sample_ledger() &&
      (spec.strategy().has_slipstream() || spec.strategy().has_auto_())) {
    problems.Add("checkpoint.sample_ledger",
                 "is true beside strategy slipstream or auto, whose ranks make steps of their own: "
                 "no step of the job has samples; it needs strategy ddp, local_sgd or hsgd");
  }
}

void CheckResumption(const v1::JobSpec& spec, ProblemList& problems) {
  // Otherwise it names a checkpoint that the controller knows.
  if (absl::StartsWith(spec.resume_from(), "/")) {
    CheckPath("resume_from", spec.resume_from(), problems);
  }
  if (!spec.resume_from().empty() && !spec.init_from().empty()) {
    problems.Add("resume_from",
                 "is given beside init_from, but a checkpoint has the weights too; give one of "
                 "them");
  }
}

void CheckTimeouts(const v1::JobSpec& spec, ProblemList& problems) {
  // Without a sound collective_timeout_s there is nothing to compare with.
  if (problems.Tells("collective_timeout_s")) return;
  const std::vector<Rung> ladder = LadderOf(spec);
  if (std::none_of(ladder.begin(), ladder.end(),
                   [&](const Rung& rung) { return problems.Tells(rung.name); })) {
    CheckOrder(ladder, problems);
  }
  const double least = 3 * spec.collective_timeout_s();
  if (problems.Tells("startup_timeout_s") || spec.startup_timeout_s() >= least) return;
  problems.Add("startup_timeout_s",
               StrCat("is ", spec.startup_timeout_s(),
                      "; allowed is 3 times collective_timeout_s (", least, ") and more"));
}

void CheckRecovery(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::Recovery& recovery = spec.recovery();
  if (recovery.max_failures() > 0) {
    if (spec.ranks() > 0) CheckShrinking(spec, problems);
    CheckGrowth(spec, problems);
    CheckCopies(spec, problems);
    if (spec.cuda_graph()) {
      problems.Add("recovery.max_failures",
                   "is more than 0 beside cuda_graph, whose one rank has no other to get its state "
                   "from; use max_restarts");
    }
    return;
  }
  if (recovery.spares() > 0) {
    problems.Add("recovery.spares",
                 StrCat("is ", recovery.spares(), "; it needs recovery.max_failures above 0"));
  }
  if (recovery.min_ranks() != 0) {
    problems.Add("recovery.min_ranks",
                 StrCat("is ", recovery.min_ranks(), "; it needs recovery.max_failures above 0"));
  }
  if (recovery.max_ranks() != 0) {
    problems.Add("recovery.max_ranks",
                 StrCat("is ", recovery.max_ranks(), "; it needs recovery.max_failures above 0"));
  }
  if (recovery.copy_every_steps() != 0) {
    problems.Add("recovery.copy_every_steps", StrCat("is ", recovery.copy_every_steps(),
                                                     "; it needs recovery.max_failures above 0"));
  }
}

std::vector<SpecProblem> CheckLease(const v1::JobSpec& given, double lease_s) {
  v1::JobSpec spec = given;
  FillDefaults(&spec);
  ProblemList problems;
  if (lease_s > 0 && spec.recovery().max_failures() > 0) {
    const std::vector<Rung> ladder = LadderOf(spec);
    const Rung lease = {"the controller's --node-lease", lease_s};
    const Rung& collective = ladder[2];
    const Rung& give_up = ladder[3];
    if (collective.seconds >= lease_s) {
      problems.Add(collective.name,
                   StrCat("is ", collective.seconds, ", not below ", lease.name, " (", lease_s,
                          "); timeouts rise: ", DescribeLadder({collective, lease, give_up})));
    } else if (give_up.seconds <= lease_s) {
      problems.Add(give_up.name,
                   StrCat("is ", give_up.seconds, ", not above ", lease.name, " (", lease_s,
                          "); timeouts rise: ", DescribeLadder({collective, lease, give_up})));
    }
  }
  return problems.Take();
}

}  // namespace paceline
