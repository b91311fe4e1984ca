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

}  // namespace paceline
