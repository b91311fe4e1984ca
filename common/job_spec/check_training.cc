// What is trained, on what, and by which steps.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

void CheckLlama(const v1::Llama& llama, ProblemList& problems) {
  const std::string at = "model.llama.";
  // Without a known preset there are no sizes to judge.
  if (problems.Tells(at + "preset")) return;
  const bool dim = !problems.Tells(at + "dim");
  const bool heads = !problems.Tells(at + "heads");
  if (dim && heads && llama.dim() % llama.heads() != 0) {
    problems.Add(at + "heads", StrCat("is ", llama.heads(), "; allowed are the divisors of dim (",
                                      llama.dim(), ")"));
  } else if (dim && heads && llama.dim() / llama.heads() % 2 != 0) {
    problems.Add(at + "heads", StrCat("is ", llama.heads(), ", which makes each head ",
                                      llama.dim() / llama.heads(), " wide; dim / heads (",
                                      llama.dim(), " / heads) is to be even"));
  }
  const bool kv_heads = !problems.Tells(at + "kv_heads");
  if (heads && kv_heads && llama.heads() % llama.kv_heads() != 0) {
    problems.Add(at + "kv_heads",
                 StrCat("is ", llama.kv_heads(), "; allowed are the divisors of heads (",
                        llama.heads(), "); left out, it is that of the preset"));
  }
}

}  // namespace

void CheckModel(const v1::Model& model, ProblemList& problems) {
  if (model.kind_case() == v1::Model::KIND_NOT_SET) {
    problems.Add("model.kind", "is missing; allowed is resnet18, mlp, llama, torchscript");
  }
  if (model.has_llama()) CheckLlama(model.llama(), problems);
  if (model.has_torchscript() && model.torchscript().file().empty()) {
    problems.Add("model.torchscript.file", "is missing; give the file of the scripted module");
  }
}

int LeastSamples(const v1::Model& model) {
  // What is in a module, nobody knows before it runs.
  return model.has_resnet18() || model.has_torchscript() ? 2 : 1;
}

void CheckData(const v1::Data& data, ProblemList& problems) {
  if (data.train().empty()) {
    problems.Add("data.train", "is missing; give the file with the training samples");
  }
}

void CheckOptimizer(const v1::Optimizer& optimizer, ProblemList& problems) {
  if (optimizer.kind_case() == v1::Optimizer::KIND_NOT_SET) {
    problems.Add("optimizer.kind", "is missing; allowed is sgd, adamw");
  }
  if (optimizer.sgd().nesterov() && optimizer.sgd().momentum() == 0) {
    problems.Add("optimizer.sgd.nesterov", "is true without momentum; give a momentum above 0 too");
  }
  if (optimizer.learning_rate() == 0) {
    problems.Add("optimizer.learning_rate", "is missing or 0; allowed is more than 0");
  }
}

void CheckSchedule(const v1::Schedule& schedule, int64_t steps, ProblemList& problems) {
  const int64_t warmup = schedule.warmup_steps();
  if (steps > 0 && warmup >= steps) {
    problems.Add(
        "schedule.warmup_steps",
        StrCat("is ", warmup, "; allowed is 0 and more, and less than steps (", steps, ")"));
  }
  const int64_t end = schedule.cosine().steps();
  if (end > 0 && end <= warmup) {
    problems.Add("schedule.cosine.steps",
                 StrCat("is ", end, "; allowed is more than warmup_steps (", warmup,
                        "), or 0: those of the job"));
  }
  if (schedule.has_step() && schedule.step().every() == 0) {
    problems.Add("schedule.step.every",
                 "is missing or 0; give the steps between two reductions, at least 1");
  }
}

void CheckRankScale(const v1::JobSpec& spec, ProblemList& problems) {
  constexpr char kKey[] = "schedule.scale_with_ranks";
  const v1::RankScale scale = spec.schedule().scale_with_ranks();
  if (problems.Tells(kKey) || scale == v1::RANK_SCALE_UNSPECIFIED || scale == v1::RANK_SCALE_NONE) {
    return;
  }
  const std::string given = StrCat("is ", EnumName(*v1::RankScale_descriptor(), scale));
  if (!spec.strategy().has_ddp()) {
    problems.Add(kKey, StrCat(given,
                              " beside a strategy in which the gradients of all ranks are "
                              "not averaged at each step; it needs strategy ddp"));
  } else if (spec.recovery().batch() != v1::KEEP_RANK_BATCH) {
    problems.Add(kKey, StrCat(given,
                              ", but a step has as many samples with any number of ranks, so that "
                              "the learning rate fits as it is; give none, or recovery.batch: "
                              "keep_rank_batch"));
  }
}

}  // namespace paceline
