#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/utf8_prefix.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

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
                 StrCat("is missing; allowed is ",
                        absl::StrJoin(EnumNames(*v1::FaultKind_descriptor()), ", ")));
  }
  if (fault.kind() == v1::FLIP_BIT && !spec.strategy().has_slipstream()) {
    problems.Add(StrCat(at, "kind"),
                 "is flip_bit, which only strategy slipstream notices: its ranks compare their "
                 "models");
  }
  const std::string factor = StrCat(at, "factor");
  if (fault.kind() == v1::SLOW && fault.factor() < 1 && !problems.Tells(factor)) {
    problems.Add(factor, StrCat("is ", fault.factor(), "; allowed is 1 and more for slow"));
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

void CheckCudaGraph(const v1::JobSpec& spec, ProblemList& problems) {
  if (!spec.cuda_graph()) return;
  std::vector<std::string> wanted;
  if (spec.device() != v1::CUDA) wanted.emplace_back("device cuda");
  if (spec.ranks() != 1) wanted.push_back(StrCat("1 rank instead of ", spec.ranks()));
  if (!spec.model().has_llama() && !spec.model().has_mlp()) {
    wanted.emplace_back("model kind llama or mlp");
  }
  for (const v1::Fault& fault : spec.chaos()) {
    if (fault.kind() == v1::NAN_LOSS) wanted.emplace_back("no fault of kind nan_loss");
  }
  if (wanted.empty()) return;
  problems.Add("cuda_graph", StrCat("is true; it needs ", absl::StrJoin(wanted, ", ")));
}

// Whatever the strategy.
void CheckGradientFormat(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.gradient_format() != v1::WIRE_FORMAT_INT4) return;
  problems.Add("gradient_format",
               "is int4, which has 15 values and is for averages that end in an outer step; give "
               "int8, or leave it out");
}

// What Paceline's engine trains, and how. A session brings its own model, data and optimizer.
void CheckTraining(const v1::JobSpec& spec, ProblemList& problems) {
  const bool built_in = spec.command().empty();
  if (built_in) {
    CheckModel(spec.model(), problems);
    CheckCompiled(spec, problems);
    CheckData(spec.data(), problems);
  }
  if (spec.steps() == 0) {
    problems.Add("steps", "is missing; give the number of optimizer steps, at least 1");
  }
  if (built_in) {
    CheckOptimizer(spec.optimizer(), problems);
    CheckSchedule(spec.schedule(), spec.steps(), problems);
    CheckRankScale(spec, problems);
    CheckDropLast(spec, problems);
    CheckEvaluation(spec, problems);
  }
  CheckCheckpoint(spec, problems);
  CheckChaos(spec, problems);
  CheckGradientFormat(spec, problems);
  CheckShards(spec, problems);
  CheckStrategy(spec, problems);
  CheckSlipstream(spec, problems);
  CheckSyncBatchNorm(spec, problems);
  CheckExport(spec.export_final(), problems);
  CheckTimeouts(spec, problems);
  if (!built_in) return;
  CheckCudaGraph(spec, problems);
  CheckPrecision(spec, problems);
}

}  // namespace

std::vector<SpecProblem> CheckJobSpec(const v1::JobSpec& given) {
  ProblemList problems;
  CheckLimits(given, problems);
  // What is beyond them is not scanned.
  if (!problems.empty()) return problems.Take();
  v1::JobSpec spec = given;
  FillDefaults(&spec);
  CheckGiven(given, problems);
  CheckKeys(given, "", problems);
  CheckName(spec.name(), problems);
  CheckLabels(spec, problems);
  if (!given.command().empty()) CheckCommand(spec, problems);
  if (HasEngine(given)) {
    CheckTraining(spec, problems);
    CheckRecovery(spec, problems);
  }
  CheckResumption(spec, problems);
  CheckPlacement(spec, problems);
  CheckTracker(spec.tracker(), problems);
  return problems.Take();
}

}  // namespace paceline
