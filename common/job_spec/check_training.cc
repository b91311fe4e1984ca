// What is trained, on what, and by which steps.
#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

void CheckLlama(const v1::Llama& llama, ProblemList& problems) {
  const std::string at = "model.llama.";
  // Without a known preset there are no sizes to judge.
  if (!problems.CheckEnum(at + "preset", llama.preset(), *v1::LlamaPreset_descriptor())) return;
  const bool dim = problems.CheckSize(at + "dim", llama.dim());
  problems.CheckSize(at + "layers", llama.layers());
  const bool heads = problems.CheckSize(at + "heads", llama.heads());
  if (dim && heads && llama.dim() % llama.heads() != 0) {
    problems.Add(at + "heads", StrCat("is ", llama.heads(), "; allowed are the divisors of dim (",
                                      llama.dim(), ")"));
  } else if (dim && heads && llama.dim() / llama.heads() % 2 != 0) {
    problems.Add(at + "heads", StrCat("is ", llama.heads(), ", which makes each head ",
                                      llama.dim() / llama.heads(), " wide; dim / heads (",
                                      llama.dim(), " / heads) is to be even"));
  }
  const bool kv_heads = problems.CheckSize(at + "kv_heads", llama.kv_heads());
  if (heads && kv_heads && llama.heads() % llama.kv_heads() != 0) {
    problems.Add(at + "kv_heads",
                 StrCat("is ", llama.kv_heads(), "; allowed are the divisors of heads (",
                        llama.heads(), "); left out, it is that of the preset"));
  }
  problems.CheckSize(at + "ffn_dim", llama.ffn_dim());
  problems.CheckSize(at + "vocab_size", llama.vocab_size());
  problems.CheckAbove(at + "rope_theta", llama.rope_theta(), 0);
  problems.CheckAbove(at + "norm_epsilon", llama.norm_epsilon(), 0);
}

}  // namespace

void CheckModel(const v1::Model& model, ProblemList& problems) {
  if (model.kind_case() == v1::Model::KIND_NOT_SET) {
    problems.Add("model.kind", "is missing; allowed is resnet18, mlp, llama, torchscript");
  }
  for (int i = 0; i < model.mlp().hidden_size(); ++i) {
    problems.CheckSize(StrCat("model.mlp.hidden[", i, "]"), model.mlp().hidden(i));
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
  problems.CheckEnum("data.order", data.order(), *v1::DataOrder_descriptor());
  problems.CheckSize("data.sequence_length", data.sequence_length());
  problems.CheckEnum("data.token_type", data.token_type(), *v1::TokenType_descriptor());
  problems.CheckRange("data.prefetch_threads", data.prefetch_threads(), 0, 64);
  problems.CheckAtLeast("data.prefetch_batches", data.prefetch_batches(), 1);
}

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
    const int64_t end = schedule.cosine().steps();
    if (end != 0 && end <= warmup) {
      problems.Add("schedule.cosine.steps",
                   StrCat("is ", end, "; allowed is more than warmup_steps (", warmup,
                          "), or 0: those of the job"));
    }
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
