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

void CheckStrategyFields(const v1::Strategy& strategy, ProblemList& problems) {
  problems.CheckEnum("strategy.slipstream.mode", strategy.slipstream().mode(),
                     *v1::SlipstreamMode_descriptor());
  CheckWindow(strategy.slipstream().window(), problems);
  if (strategy.warmup_steps() != 0) {
    problems.Add("strategy.warmup_steps",
                 StrCat("is ", strategy.warmup_steps(),
                        "; kind slipstream has none: begin in mode sync, and change the mode later "
                        "(paceline job mode)"));
  }
  if (strategy.gradient_group_size() != 0) {
    problems.Add("strategy.gradient_group_size",
                 StrCat("is ", strategy.gradient_group_size(),
                        "; kind slipstream has no groups: leave it out"));
  }
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
  if (!spec.strategy().has_slipstream()) return;
  CheckStrategyFields(spec.strategy(), problems);
  if (spec.gradient_format() == v1::WIRE_FORMAT_FP16 ||
      spec.gradient_format() == v1::WIRE_FORMAT_BF16) {
    problems.Add("gradient_format",
                 StrCat("is ", EnumName(*v1::WireFormat_descriptor(), spec.gradient_format()),
                        "; strategy slipstream sends fp32 only"));
  }
  if (spec.cuda_graph()) {
    problems.Add("cuda_graph", "is true; strategy slipstream has no steps that are all alike");
  }
  if (spec.on_nonfinite() == v1::NON_FINITE_IGNORE) {
    problems.Add("on_nonfinite",
                 "is ignore, but with strategy slipstream one rank's would spoil the model of all; "
                 "allowed is stop, skip");
  }
  if (spec.stragglers().mode() == v1::STRAGGLER_MODE_AUTO) {
    problems.Add("stragglers.mode",
                 "is auto; its remedies are not made for strategy slipstream, whose ranks do not "
                 "wait for a slow one: allowed is off, advise");
  }
}

}  // namespace paceline
