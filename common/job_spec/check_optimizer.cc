#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {

using absl::StrCat;

void CheckOptimizer(const v1::Optimizer& optimizer, ProblemList& problems) {
  if (optimizer.kind_case() == v1::Optimizer::KIND_NOT_SET) {
    problems.Add("optimizer.kind", "is missing; allowed is sgd, adamw");
  }
  if (optimizer.has_sgd()) {
    problems.CheckShare("optimizer.sgd.momentum", optimizer.sgd().momentum(), true, false);
    if (optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0) {
      problems.Add("optimizer.sgd.nesterov",
                   "is true without momentum; give a momentum above 0 too");
    }
  }
  if (optimizer.has_adamw()) {
    problems.CheckShare("optimizer.adamw.beta1", optimizer.adamw().beta1(), true, false);
    problems.CheckShare("optimizer.adamw.beta2", optimizer.adamw().beta2(), true, false);
    problems.CheckAbove("optimizer.adamw.epsilon", optimizer.adamw().epsilon(), 0);
  }
  if (optimizer.learning_rate() == 0) {
    problems.Add("optimizer.learning_rate", "is missing or 0; allowed is more than 0");
  } else {
    problems.CheckAbove("optimizer.learning_rate", optimizer.learning_rate(), 0);
  }
  problems.CheckFiniteAtLeast("optimizer.weight_decay", optimizer.weight_decay(), 0);
}

void CheckSchedule(const v1::Schedule& schedule, int64_t steps, ProblemList& problems) {
  const int64_t warmup = schedule.warmup_steps();
  if (warmup < 0 || (steps > 0 && warmup >= steps)) {
    problems.Add("schedule.warmup_steps",
                 StrCat("is ", warmup, "; allowed is 0 and more, and less than steps",
                        steps > 0 ? StrCat(" (", steps, ")") : ""));
  }
  if (schedule.has_cosine()) {
    problems.CheckShare("schedule.cosine.final_ratio", schedule.cosine().final_ratio(), true, true);
  }
  if (schedule.has_step()) {
    if (schedule.step().every() == 0) {
      problems.Add("schedule.step.every",
                   "is missing or 0; give the steps between two reductions, at least 1");
    } else {
      problems.CheckAtLeast("schedule.step.every", schedule.step().every(), 1);
    }
    problems.CheckShare("schedule.step.gamma", schedule.step().gamma(), false, true);
  }
}

}  // namespace paceline
