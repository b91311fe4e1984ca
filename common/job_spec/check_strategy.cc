// How ranks train together.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;
using Ladder = google::protobuf::RepeatedPtrField<v1::LadderLevel>;

// 0: not known, for one of the two was given wrongly.
int ReplicasOf(int ranks, int shards) {
  return shards > 0 && ranks % shards == 0 ? ranks / shards : 0;
}

std::string Name(v1::Scope scope) { return EnumName(*v1::Scope_descriptor(), scope); }

// `replicas`: of a group, or 0 if that is not known.
void CheckOuter(const v1::Outer& outer, int replicas, const std::string& field,
                ProblemList& problems) {
  if (outer.kind() == v1::OUTER_UNSPECIFIED) {
    problems.Add(field + ".kind", "is missing; give nesterov (DiLoCo) or slowmo");
  }
  if (replicas == 1) {
    problems.Add(field,
                 "is given for groups of one, which have nothing to average: leave it out, or "
                 "take more ranks");
  }
}

// `field`: of the format of averages.
void CheckFormat(v1::WireFormat format, bool has_outer, const std::string& field,
                 ProblemList& problems) {
  if (format == v1::WIRE_FORMAT_INT4 && !has_outer) {
    problems.Add(
        field,
        "is int4, which has 15 values and is for levels that end in an outer step; give int8, "
        "or outer too");
  }
}

constexpr char kStreamKeys[] = "fragments, delay or alpha";

bool IsStreamed(const v1::Outer& outer) {
  return outer.fragments() > 1 || outer.delay() > 0 || outer.alpha() > 0;
}

// What the keys of a streamed outer step need of its level. `period`: 0 if it is not known.
void CheckStream(const v1::Outer& outer, int64_t period, const std::string& field,
                 ProblemList& problems) {
  const int64_t fragments = std::max(1, outer.fragments());
  if (period <= 0 || problems.Tells(field + ".fragments")) return;
  if (period % fragments != 0) {
    problems.Add(
        field + ".fragments",
        StrCat("is ", fragments, "; allowed are the divisors of the period (", period, ")"));
  } else if (!problems.Tells(field + ".delay") && outer.delay() >= period / fragments) {
    problems.Add(field + ".delay",
                 StrCat("is ", outer.delay(), "; allowed is less than the ", period / fragments,
                        " steps from one average to the next (period / fragments)"));
  }
}

// Walks up a ladder with what the level below had.
class LadderCheck {
 public:
  // `ranks` below 1: not known, for it was given wrongly. Groups are of ranks, or with `shards` of
  // replicas.
  LadderCheck(int ranks, int shards, std::string field, ProblemList& problems)
      : ranks_(ReplicasOf(ranks, shards)),
        shards_(shards),
        noun_(shards > 1 ? "replicas" : "ranks"),
        field_(std::move(field)),
        problems_(problems) {}

  void Run(const Ladder& ladder) {
    for (int i = 0; i < ladder.size(); ++i) {
      at_ = StrCat(field_, "[", i, "].");
      first_ = i == 0;
      last_ = i + 1 == ladder.size();
      CheckPeriod(ladder[i].period());
      CheckGroup(ladder[i]);
      CheckFormat(ladder[i].format(), ladder[i].has_outer(), at_ + "format", problems_);
      if (!ladder[i].has_outer()) continue;
      CheckOuter(ladder[i].outer(), last_ ? ranks_ : ladder[i].size(), at_ + "outer", problems_);
      if (IsStreamed(ladder[i].outer())) CheckStreamed(ladder[i]);
    }
  }

 private:
  void CheckPeriod(int64_t period) {
    if (period == 0) {
      problems_.Add(at_ + "period", "is missing or 0; give the steps between two means, 1 or more");
    } else if (problems_.Tells(at_ + "period")) {
      return;
    } else if (period <= period_below_ || (period_below_ > 0 && period % period_below_ != 0)) {
      problems_.Add(at_ + "period",
                    StrCat("is ", period, "; allowed are multiples of the period before it (",
                           period_below_, ") that are above it"));
    } else {
      period_below_ = period;
    }
  }

  void CheckGroup(const v1::LadderLevel& level) {
    if (problems_.Tells(at_ + "level")) return;
    if (level.size() != 0 && level.level() != v1::SCOPE_UNSPECIFIED) {
      problems_.Add(at_ + "level", StrCat("is ", Name(level.level()), " beside size ", level.size(),
                                          "; give one of the two"));
    } else if (level.level() != v1::SCOPE_UNSPECIFIED) {
      CheckScope(level.level());
    } else if (level.size() != 0) {
      CheckSize(level.size());
    } else {
      problems_.Add(at_ + "size", StrCat("is missing; give the ", noun_, " per group, or a level"));
    }
  }

  void CheckScope(v1::Scope scope) {
    if (scope <= scope_below_) {
      problems_.Add(at_ + "level", StrCat("is ", Name(scope), " after ", Name(scope_below_),
                                          "; the order is node, rack, all"));
    } else if (last_ && scope != v1::SCOPE_ALL) {
      problems_.Add(at_ + "level",
                    StrCat("is ", Name(scope), "; the last level takes all, or as size ", Ranks()));
    } else {
      scope_below_ = scope;
    }
  }

  void CheckSize(int size) {
    const std::string field = at_ + "size";
    if (scope_below_ != v1::SCOPE_UNSPECIFIED) {
      problems_.Add(field, StrCat("is ", size, " after level ", Name(scope_below_),
                                  "; those with a size come before those with a level"));
    } else if (problems_.Tells(field)) {
      return;
    } else if (size <= size_below_ || (size_below_ > 0 && size % size_below_ != 0)) {
      problems_.Add(field, StrCat("is ", size, "; allowed are multiples of the size before it (",
                                  size_below_, ") that are above it"));
    } else if (ranks_ > 0 && last_ && size != ranks_) {
      problems_.Add(field, StrCat("is ", size, "; the last level takes ", Ranks(),
                                  ", or level all instead of a size"));
    } else if (!last_ && size == ranks_) {
      problems_.Add(field, StrCat("is ", size, ", the number of ", noun_,
                                  ", before the last level; give less"));
    } else if (ranks_ > 0 && ranks_ % size != 0) {
      problems_.Add(field, StrCat("is ", size, "; allowed are the divisors of ", Ranks()));
    } else {
      size_below_ = size;
    }
  }

  void CheckStreamed(const v1::LadderLevel& level) {
    const std::string field = at_ + "outer";
    std::string why = shards_ > 1 ? "the job has shards" : "";
    if (!first_ || !last_) why = "the ladder has several levels";
    if (!why.empty()) {
      problems_.Add(field, StrCat("has ", kStreamKeys, ", but ", why,
                                  ": leave these out, or give one level without shards"));
    } else {
      CheckStream(level.outer(), problems_.Tells(at_ + "period") ? 0 : level.period(), field,
                  problems_);
    }
  }

  std::string Ranks() const {
    const std::string number = StrCat("the number of ", noun_);
    return ranks_ > 0 ? StrCat(number, " (", ranks_, ")") : number;
  }

  const int ranks_;  // Or replicas.
  const int shards_;
  const char* const noun_;
  const std::string field_;
  ProblemList& problems_;
  // Of the level that is looked at.
  std::string at_;
  bool first_ = false;
  bool last_ = false;
  // Of the nearest sound one before it; 0: none.
  int64_t period_below_ = 0;
  int size_below_ = 0;
  v1::Scope scope_below_ = v1::SCOPE_UNSPECIFIED;
};

// Of a job with a streamed outer step.
void CheckAroundStream(const v1::JobSpec& spec, ProblemList& problems) {
  const std::string why = StrCat("; an outer step with ", kStreamKeys,
                                 " does not go with it: leave these out, or give ");
  if (spec.strategy().optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE) {
    problems.Add("strategy.optimizer_state", StrCat("is average", why, "local"));
  }
  if (spec.precision() == v1::BF16_FULL) {
    problems.Add("precision", StrCat("is bf16_full", why, "bf16"));
  }
}

// `ranks`: 0 if it is not known.
void CheckOuterOfLocalSgd(const v1::JobSpec& spec, int ranks, ProblemList& problems) {
  const std::string field = "strategy.local_sgd.outer";
  const v1::LocalSgd& local_sgd = spec.strategy().local_sgd();
  const v1::Outer& outer = local_sgd.outer();
  CheckOuter(outer, ReplicasOf(ranks, spec.shards()), field, problems);
  if (!IsStreamed(outer)) return;
  if (spec.shards() > 1) {
    problems.Add(field, StrCat("has ", kStreamKeys,
                               ", but the job has shards: leave these out, or take no shards"));
  } else {
    CheckStream(outer, problems.Tells("strategy.local_sgd.period") ? 0 : local_sgd.period(), field,
                problems);
  }
}

// What only means something when parameters are averaged.
void CheckUnusedByDdp(const v1::Strategy& strategy, ProblemList& problems) {
  constexpr char kWhy[] = "; kind ddp has none: leave it out, or give kind local_sgd or hsgd";
  if (strategy.warmup_steps() != 0) {
    problems.Add("strategy.warmup_steps", StrCat("is ", strategy.warmup_steps(), kWhy));
  }
  if (strategy.gradient_group_size() != 0) {
    problems.Add("strategy.gradient_group_size",
                 StrCat("is ", strategy.gradient_group_size(), kWhy));
  }
  if (strategy.optimizer_state() != v1::OPTIMIZER_STATE_UNSPECIFIED) {
    problems.Add(
        "strategy.optimizer_state",
        StrCat("is ", EnumName(*v1::OptimizerState_descriptor(), strategy.optimizer_state()),
               kWhy));
  }
}

// Both ddp and slipstream are its own affair.
void CheckAuto(const v1::Strategy& strategy, ProblemList& problems) {
  if (strategy.gradient_group_size() != 0) {
    problems.Add("strategy.gradient_group_size", StrCat("is ", strategy.gradient_group_size(),
                                                        "; kind auto has no groups: leave it out"));
  }
  if (strategy.optimizer_state() != v1::OPTIMIZER_STATE_UNSPECIFIED) {
    problems.Add(
        "strategy.optimizer_state",
        StrCat("is ", EnumName(*v1::OptimizerState_descriptor(), strategy.optimizer_state()),
               "; kind auto decides that by itself: leave it out"));
  }
}

void CheckWindow(const v1::SlipstreamWindow& window, ProblemList& problems) {
  const std::string at = "strategy.slipstream.window.";
  const bool min = !problems.Tells(at + "min_steps");
  const bool max = !problems.Tells(at + "max_steps");
  if (min && max && window.max_steps() < window.min_steps()) {
    problems.Add(at + "max_steps", StrCat("is ", window.max_steps(), "; allowed is min_steps (",
                                          window.min_steps(), ") and more"));
  }
  const bool cap = !problems.Tells(at + "max_cap");
  if (max && cap && window.max_cap() < window.max_steps()) {
    problems.Add(at + "max_cap",
                 StrCat("is ", window.max_cap(), "; allowed is max_steps (", window.max_steps(),
                        ") and more: ranks would wait for the "
                        "end of longer windows"));
  }
}

// So many of the job's ranks, if that number is known, have gradients in common.
void CheckGradientGroups(const v1::JobSpec& spec, ProblemList& problems) {
  const std::string field = "strategy.gradient_group_size";
  const int ranks = spec.ranks();
  const int group = spec.strategy().gradient_group_size();
  if (group < 0 || (group > 0 && ranks > 0 && ranks % group != 0)) {
    problems.Add(field, StrCat("is ", group,
                               "; allowed is 0 or 1 for no groups, or a divisor of the number ",
                               "of ranks", ranks > 0 ? StrCat(" (", ranks, ")") : ""));
  } else if (group > 1 && spec.device() == v1::CUDA) {
    problems.Add(field,
                 StrCat("is ", group, "; on cuda kind slipstream has no groups: leave it out"));
  }
}

void CheckStrategyFields(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::Strategy& strategy = spec.strategy();
  CheckWindow(strategy.slipstream().window(), problems);
  if (strategy.warmup_steps() != 0) {
    problems.Add("strategy.warmup_steps",
                 StrCat("is ", strategy.warmup_steps(),
                        "; kind slipstream has none: begin in mode sync, and change the mode later "
                        "(paceline job mode)"));
  }
  CheckGradientGroups(spec, problems);
  if (strategy.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE &&
      strategy.slipstream().mode() != v1::SLIPSTREAM_PAUSE) {
    problems.Add("strategy.optimizer_state",
                 StrCat("is average; it needs mode pause instead of ",
                        EnumName(*v1::SlipstreamMode_descriptor(), strategy.slipstream().mode())));
  }
}

}  // namespace

void CheckStrategy(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::Strategy& strategy = spec.strategy();
  if (strategy.has_slipstream()) return;
  if (strategy.has_auto_()) {
    CheckAuto(strategy, problems);
    return;
  }
  if (strategy.has_ddp()) {
    CheckUnusedByDdp(strategy, problems);
    return;
  }
  if (strategy.has_local_sgd() && strategy.local_sgd().period() == 0) {
    problems.Add("strategy.local_sgd.period",
                 "is missing or 0; give the steps between two means, 1 or more");
  }
  CheckFormat(strategy.local_sgd().format(), strategy.local_sgd().has_outer(),
              "strategy.local_sgd.format", problems);
  const int ranks = problems.Tells("ranks") ? 0 : spec.ranks();
  const int shards = spec.shards();
  if (strategy.local_sgd().has_outer()) CheckOuterOfLocalSgd(spec, ranks, problems);
  const Ladder& ladder = strategy.hsgd().ladder();
  if (IsStreamed(strategy.local_sgd().outer()) ||
      std::any_of(ladder.begin(), ladder.end(),
                  [](const v1::LadderLevel& level) { return IsStreamed(level.outer()); })) {
    CheckAroundStream(spec, problems);
  }
  if (strategy.has_hsgd()) {
    LadderCheck(ranks, shards, "strategy.hsgd.ladder", problems).Run(strategy.hsgd().ladder());
  }
  const int group = strategy.gradient_group_size();
  const int replicas = ReplicasOf(ranks, shards);
  if (group < 0 || (group > 0 && replicas > 0 && replicas % group != 0)) {
    const char* const noun = shards > 1 ? "replicas" : "ranks";
    problems.Add(
        "strategy.gradient_group_size",
        StrCat("is ", group, "; allowed is 0 for the ", noun, " of each node, or a divisor ",
               "of the number of ", noun, replicas > 0 ? StrCat(" (", replicas, ")") : ""));
  }
}

std::vector<SpecProblem> CheckLadder(const Ladder& ladder, int ranks, int shards,
                                     const std::string& field) {
  ProblemList problems;
  for (int i = 0; i < ladder.size(); ++i) {
    CheckKeys(ladder[i], StrCat(field, "[", i, "]."), problems);
  }
  LadderCheck(ranks, shards, field, problems).Run(ladder);
  return problems.Take();
}

std::vector<SpecProblem> CheckLadderFits(const Ladder& ladder, const v1::JobSpec& spec,
                                         const std::string& field) {
  std::string why;
  if (spec.strategy().optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE) {
    why = "optimizer_state average";
  }
  if (spec.precision() == v1::BF16_FULL) why = "precision bf16_full";
  ProblemList problems;
  for (int i = 0; i < ladder.size(); ++i) {
    if (why.empty() || !IsStreamed(ladder[i].outer())) continue;
    problems.Add(
        StrCat(field, "[", i, "].outer"),
        StrCat("has ", kStreamKeys, ", which do not go with the job's ", why, ": leave these out"));
  }
  return problems.Take();
}

void CheckSlipstream(const v1::JobSpec& spec, ProblemList& problems) {
  const bool is_auto = spec.strategy().has_auto_();
  if (!is_auto && !spec.strategy().has_slipstream()) return;
  if (!is_auto) CheckStrategyFields(spec, problems);
  const std::string name = is_auto ? "strategy auto" : "strategy slipstream";
  if (is_auto && spec.device() == v1::CUDA) {
    problems.Add("device", "is cuda; strategy auto runs on cpu only: name ddp or slipstream");
  }
  const bool is_int8 = spec.gradient_format() == v1::WIRE_FORMAT_INT8;
  if (spec.gradient_format() > v1::WIRE_FORMAT_FP32 && (is_auto || !is_int8) &&
      !problems.Tells("gradient_format")) {
    problems.Add("gradient_format",
                 StrCat("is ", EnumName(*v1::WireFormat_descriptor(), spec.gradient_format()), "; ",
                        name, is_auto ? " sends fp32 only" : " sends fp32 or int8"));
  }
  if (!is_auto && is_int8 && spec.device() == v1::CUDA) {
    problems.Add("gradient_format", "is int8; on cuda strategy slipstream sends fp32 only");
  }
  const v1::SlipstreamMode mode = spec.strategy().slipstream().mode();
  if (is_int8 && (mode == v1::SLIPSTREAM_DROP || mode == v1::SLIPSTREAM_SYNC)) {
    problems.Add("strategy.slipstream.mode",
                 StrCat("is ", EnumName(*v1::SlipstreamMode_descriptor(), mode),
                        ", which sends gradients; gradient_format int8 is one of updates and needs "
                        "mode free or pause"));
  }
  if (spec.cuda_graph()) {
    problems.Add("cuda_graph", StrCat("is true; ", name, " has no steps that are all alike"));
  }
  if (spec.on_nonfinite() == v1::NON_FINITE_IGNORE) {
    problems.Add("on_nonfinite", StrCat("is ignore, but with ", name,
                                        " one rank's would spoil the model of all; allowed is "
                                        "stop, skip"));
  }
  if (is_auto && spec.stragglers().mode() == v1::STRAGGLER_MODE_OFF) {
    problems.Add("stragglers.mode",
                 "is off; strategy auto goes by what is measured of the ranks: allowed is advise, "
                 "auto");
  }
}

}  // namespace paceline
