#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

void CheckWindow(const v1::SlipstreamWindow& window, ProblemList& problems) {
  const std::string at = "strategy.slipstream.window.";
  const bool min = problems.CheckSize(at + "min_steps", window.min_steps());
  const bool max = problems.CheckSize(at + "max_steps", window.max_steps());
  if (min && max && window.max_steps() < window.min_steps()) {
    problems.Add(at + "max_steps", StrCat("is ", window.max_steps(), "; allowed is min_steps (",
                                          window.min_steps(), ") and more"));
  }
  const bool cap = problems.CheckSize(at + "max_cap", window.max_cap());
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
  problems.CheckEnum("strategy.slipstream.mode", strategy.slipstream().mode(),
                     *v1::SlipstreamMode_descriptor());
  CheckWindow(strategy.slipstream().window(), problems);
  if (strategy.warmup_steps() != 0) {
    problems.Add("strategy.warmup_steps",
                 StrCat("is ", strategy.warmup_steps(),
                        "; kind slipstream has none: begin in mode sync, and change the mode later "
                        "(paceline job mode)"));
  }
  CheckGradientGroups(spec, problems);
  const bool is_known = problems.CheckEnum("strategy.optimizer_state", strategy.optimizer_state(),
                                           *v1::OptimizerState_descriptor());
  if (is_known && strategy.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE &&
      strategy.slipstream().mode() != v1::SLIPSTREAM_PAUSE) {
    problems.Add("strategy.optimizer_state",
                 StrCat("is average; it needs mode pause instead of ",
                        EnumName(*v1::SlipstreamMode_descriptor(), strategy.slipstream().mode())));
  }
}

}  // namespace

void CheckSlipstream(const v1::JobSpec& spec, ProblemList& problems) {
  const bool is_auto = spec.strategy().has_auto_();
  if (!is_auto && !spec.strategy().has_slipstream()) return;
  if (!is_auto) CheckStrategyFields(spec, problems);
  const std::string name = is_auto ? "strategy auto" : "strategy slipstream";
  if (is_auto && spec.device() == v1::CUDA) {
    problems.Add("device", "is cuda; strategy auto runs on cpu only: name ddp or slipstream");
  }
  if (spec.gradient_format() == v1::WIRE_FORMAT_FP16 ||
      spec.gradient_format() == v1::WIRE_FORMAT_BF16) {
    problems.Add("gradient_format",
                 StrCat("is ", EnumName(*v1::WireFormat_descriptor(), spec.gradient_format()), "; ",
                        name, is_auto ? " sends fp32 only" : " sends fp32 or int8"));
  }
  if (!is_auto && spec.gradient_format() == v1::WIRE_FORMAT_INT8 && spec.device() == v1::CUDA) {
    problems.Add("gradient_format", "is int8; on cuda strategy slipstream sends fp32 only");
  }
  const v1::SlipstreamMode mode = spec.strategy().slipstream().mode();
  if (spec.gradient_format() == v1::WIRE_FORMAT_INT8 &&
      (mode == v1::SLIPSTREAM_DROP || mode == v1::SLIPSTREAM_SYNC)) {
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
