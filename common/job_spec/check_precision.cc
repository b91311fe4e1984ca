// Weights and optimizer state in bfloat16.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

// Bfloat16 has 8 bits: half a unit in the last place is up to 2^-8 of a value.
constexpr double kGreatestDecay = 0.99;

void CheckDecay(const std::string& field, double decay, ProblemList& problems) {
  if (decay <= kGreatestDecay || problems.Tells(field)) return;
  problems.Add(field, StrCat("is ", decay, " beside precision bf16_full: a step takes ", 1 - decay,
                             " of a moving average, which is rounded away in bfloat16, so that it "
                             "could never fall; allowed is at most ",
                             kGreatestDecay));
}

}  // namespace

void CheckPrecision(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.precision() != v1::BF16_FULL) return;
  std::vector<std::string> wanted;
  if (spec.model().has_torchscript()) wanted.emplace_back("model kind resnet18, mlp or llama");
  const v1::Strategy& strategy = spec.strategy();
  if (strategy.has_slipstream() || strategy.has_auto_()) {
    wanted.push_back(StrCat("strategy ddp, local_sgd or hsgd instead of ",
                            strategy.has_auto_() ? "auto" : "slipstream"));
  }
  if (spec.shards() > 1 && !problems.Tells("shards")) {
    wanted.push_back(StrCat("shards 1 instead of ", spec.shards()));
  }
  if (!wanted.empty()) {
    problems.Add("precision",
                 StrCat("is bf16_full; it needs ", absl::StrJoin(wanted, ", "), ", or give bf16"));
  }
  const v1::Optimizer& optimizer = spec.optimizer();
  if (optimizer.has_adamw()) {
    CheckDecay("optimizer.adamw.beta1", optimizer.adamw().beta1(), problems);
    CheckDecay("optimizer.adamw.beta2", optimizer.adamw().beta2(), problems);
  }
  CheckDecay("optimizer.sgd.momentum", optimizer.sgd().momentum(), problems);
}

}  // namespace paceline
