#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/utf8_prefix.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

constexpr int kMostRanks = 4096;

void CheckName(const std::string& name, ProblemList& problems) {
  constexpr char kAllowed[] =
      "allowed are 1 to 63 lower-case letters, digits and hyphens, a letter first";
  if (name.empty()) {
    problems.Add("name", StrCat("is missing; ", kAllowed));
    return;
  }
  bool sound = name.size() <= 63 && absl::ascii_islower(name[0]);
  for (const char c : name) {
    sound = sound && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  }
  if (sound) return;
  problems.Add("name", StrCat("is \"", absl::Utf8SafeCHexEscape(Utf8Prefix(name, 80)), "\"",
                              name.size() > 63 ? StrCat(" of ", name.size(), " characters") : "",
                              "; ", kAllowed));
}

void CheckEvaluation(const v1::JobSpec& spec, ProblemList& problems) {
  const int64_t every = spec.evaluation().every();
  problems.CheckAtLeast("evaluation.every", every, 0);
  if (every > 0 && spec.data().eval().empty()) {
    problems.Add("evaluation.every", StrCat("is ", every,
                                            " but there is nothing to evaluate on; give data.eval "
                                            "too"));
  }
}

void CheckFault(const std::string& at, const v1::Fault& fault, const v1::JobSpec& spec,
                ProblemList& problems) {
  if (fault.rank() < -1 || (spec.ranks() > 0 && fault.rank() >= spec.ranks())) {
    problems.Add(StrCat(at, "rank"), StrCat("is ", fault.rank(), "; allowed is 0 to ranks - 1 (",
                                            spec.ranks() - 1, "), or -1 for every rank"));
  }
  if (fault.step() < 0 || (spec.steps() > 0 && fault.step() >= spec.steps())) {
    problems.Add(StrCat(at, "step"), StrCat("is ", fault.step(), "; allowed is 0 to steps - 1 (",
                                            spec.steps() - 1, ")"));
  }
  if (fault.kind() == v1::FAULT_KIND_UNSPECIFIED) {
    problems.Add(StrCat(at, "kind"),
                 "is missing; allowed is throw, abort, exit, out_of_memory, sleep, nan_loss, slow, "
                 "loader_stall, communication_delay, memory_growth, freeze, flip_bit");
  }
  problems.CheckEnum(StrCat(at, "kind"), fault.kind(), *v1::FaultKind_descriptor());
  problems.CheckFiniteAtLeast(StrCat(at, "seconds"), fault.seconds(), 0);
  problems.CheckAtLeast(StrCat(at, "steps"), fault.steps(), 1);
  problems.CheckShare(StrCat(at, "probability"), fault.probability(), false, true);
  problems.CheckAtLeast(StrCat(at, "generation"), fault.generation(), 0);
  problems.CheckFiniteAtLeast(StrCat(at, "megabytes"), fault.megabytes(), 0);
  if (fault.kind() == v1::FLIP_BIT && !spec.strategy().has_slipstream()) {
    problems.Add(StrCat(at, "kind"),
                 "is flip_bit, which only strategy slipstream notices: its ranks compare their "
                 "models");
  }
  if (fault.kind() == v1::SLOW) {
    problems.CheckFiniteAtLeast(StrCat(at, "factor"), fault.factor(), 1);
  } else {
    problems.CheckFiniteAtLeast(StrCat(at, "factor"), fault.factor(), 0);
  }
}

void CheckChaos(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.chaos_size() > 0 && !spec.allow_chaos()) {
    problems.Add("chaos",
                 "is given, but allow_chaos is false; set allow_chaos: true for a job that may be "
                 "disturbed on purpose");
  }
  for (int i = 0; i < spec.chaos_size(); ++i) {
    CheckFault(StrCat("chaos[", i, "]."), spec.chaos(i), spec, problems);
  }
}

void CheckExport(const std::string& file, ProblemList& problems) {
  if (file.empty() || absl::EndsWith(file, ".safetensors")) return;
  problems.Add("export_final", StrCat("is \"", absl::Utf8SafeCHexEscape(Utf8Prefix(file, 200)),
                                      "\"; allowed is a file whose name ends in .safetensors"));
}

void CheckGradientFormat(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::WireFormat format = spec.gradient_format();
  if (!problems.CheckEnum("gradient_format", format, *v1::WireFormat_descriptor())) return;
  if (format == v1::WIRE_FORMAT_INT8 && !spec.strategy().has_slipstream()) {
    problems.Add("gradient_format",
                 "is int8, a format of parameters only; allowed is fp32, fp16, bf16");
  }
}

void CheckCudaGraph(const v1::JobSpec& spec, ProblemList& problems) {
  if (!spec.cuda_graph()) return;
  std::vector<std::string> wanted;
  if (spec.device() != v1::CUDA) wanted.emplace_back("device cuda");
  if (spec.ranks() != 1) wanted.push_back(StrCat("1 rank instead of ", spec.ranks()));
  if (!spec.model().has_llama() && !spec.model().has_mlp()) {
    wanted.emplace_back("model kind llama or mlp");
  }
  if (spec.accumulation_steps() != 1) {
    wanted.push_back(StrCat("accumulation_steps 1 instead of ", spec.accumulation_steps()));
  }
  for (const v1::Fault& fault : spec.chaos()) {
    if (fault.kind() == v1::NAN_LOSS) wanted.emplace_back("no fault of kind nan_loss");
  }
  if (wanted.empty()) return;
  problems.Add("cuda_graph", StrCat("is true; it needs ", absl::StrJoin(wanted, ", ")));
}

// What a trainer of Paceline's trains, and how.
void CheckTraining(const v1::JobSpec& spec, ProblemList& problems) {
  CheckModel(spec.model(), problems);
  CheckData(spec.data(), problems);
  problems.CheckAtLeast("batch_per_rank", spec.batch_per_rank(), 1);
  if (spec.steps() == 0) {
    problems.Add("steps", "is missing; give the number of optimizer steps, at least 1");
  } else {
    problems.CheckAtLeast("steps", spec.steps(), 1);
  }
  CheckOptimizer(spec.optimizer(), problems);
  CheckSchedule(spec.schedule(), spec.steps(), problems);
  problems.CheckAtLeast("seed", spec.seed(), 0);
  problems.CheckEnum("precision", spec.precision(), *v1::Precision_descriptor());
  CheckEvaluation(spec, problems);
  CheckCheckpoint(spec.checkpoint(), problems);
  problems.CheckAtLeast("log_every", spec.log_every(), 1);
  problems.CheckAbove("collective_timeout_s", spec.collective_timeout_s(), 0);
  CheckChaos(spec, problems);
  const bool ranks = spec.ranks() >= 1 && spec.ranks() <= kMostRanks;
  CheckStrategy(spec.strategy(), ranks ? spec.ranks() : 0, problems);
  CheckSlipstream(spec, problems);
  if (spec.model().resnet18().sync_batchnorm() && !spec.strategy().has_ddp()) {
    problems.Add("model.resnet18.sync_batchnorm",
                 "is true beside a strategy whose ranks do not wait for each other at every step; "
                 "it needs strategy ddp");
  }
  problems.CheckAtLeast("accumulation_steps", spec.accumulation_steps(), 1);
  problems.CheckFiniteAtLeast("clip_grad_norm", spec.clip_grad_norm(), 0);
  problems.CheckEnum("on_nonfinite", spec.on_nonfinite(), *v1::NonFinite_descriptor());
  CheckExport(spec.export_final(), problems);
  CheckGradientFormat(spec, problems);
  CheckTimeouts(spec, problems);
  problems.CheckFiniteAtLeast("peak_flops", spec.peak_flops(), 0);
  CheckCudaGraph(spec, problems);
}

}  // namespace

std::vector<SpecProblem> CheckJobSpec(const v1::JobSpec& given) {
  ProblemList problems;
  CheckLimits(given, problems);
  // What is beyond them is not scanned.
  if (!problems.empty()) return problems.Take();
  v1::JobSpec spec = given;
  FillDefaults(&spec);
  CheckName(spec.name(), problems);
  problems.CheckRange("ranks", spec.ranks(), 1, kMostRanks);
  problems.CheckEnum("device", spec.device(), *v1::Device_descriptor());
  problems.CheckRange("threads_per_rank", spec.threads_per_rank(), 0, 1024);
  problems.CheckEnum("stragglers.mode", spec.stragglers().mode(), *v1::StragglerMode_descriptor());
  if (given.command().empty()) {
    CheckNoCommand(given, problems);
    CheckTraining(spec, problems);
    CheckRecovery(spec, problems);
  } else {
    CheckCommand(given, problems);
  }
  CheckResumption(spec, problems);
  CheckPlacement(spec, problems);
  CheckPaths(spec, problems);
  return problems.Take();
}

}  // namespace paceline
