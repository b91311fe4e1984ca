// Models of which several ranks hold one copy together.
#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

const char* KindOf(const v1::Model& model) {
  switch (model.kind_case()) {
    case v1::Model::kResnet18:
      return "resnet18";
    case v1::Model::kMlp:
      return "mlp";
    case v1::Model::kTorchscript:
      return "torchscript";
    case v1::Model::kCompiled:
      return "compiled";
    default:
      return "llama";
  }
}

void CheckStage(const v1::JobSpec& spec, ProblemList& problems) {
  if (problems.Tells("zero_stage") || problems.Tells("shards") || spec.zero_stage() == 0) return;
  if (spec.shards() <= 1) {
    problems.Add("zero_stage", StrCat("is ", spec.zero_stage(),
                                      " without shards, the number of ranks that hold the model "
                                      "together; give shards too, or leave zero_stage out"));
    return;
  }
  const bool recomputes = spec.model().llama().checkpoint_activations();
  if (spec.zero_stage() == 3 && spec.model().has_llama() && !recomputes) {
    problems.Add("zero_stage",
                 "is 3 without model.checkpoint_activations, but a block whose matrices are freed "
                 "has to be computed again in the backward pass; give checkpoint_activations: "
                 "true, or zero_stage: 2");
  }
}

// Of a model that is built in.
void CheckBuiltIn(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.model().kind_case() == v1::Model::KIND_NOT_SET) return;
  if (!spec.model().has_llama()) {
    problems.Add("shards", StrCat("is ", spec.shards(), ", but model ", KindOf(spec.model()),
                                  " cannot be sharded, only llama, or the model of a session; "
                                  "give one of these, or shards: 1"));
  }
}

void CheckGradientFormat(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.gradient_format() == v1::WIRE_FORMAT_FP32 || problems.Tells("gradient_format")) return;
  const char* travel = spec.session()
                           ? "have the reduce_dtype of fully_shard's MixedPrecisionPolicy; give "
                             "that one, and leave this out"
                           : "travel as fp32; leave it out";
  problems.Add("gradient_format",
               StrCat("is given beside shards ", spec.shards(), ", with which gradients ", travel));
}

}  // namespace

void CheckShards(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.command().empty()) CheckStage(spec, problems);
  const int shards = spec.shards();
  if (problems.Tells("shards") || shards <= 1) return;
  if (!problems.Tells("ranks") && spec.ranks() % shards != 0) {
    problems.Add("shards", StrCat("is ", shards, "; allowed are the divisors of ranks (",
                                  spec.ranks(), "): each replica has as many ranks"));
  }
  if (spec.command().empty()) CheckBuiltIn(spec, problems);
  CheckGradientFormat(spec, problems);
  const bool is_auto = spec.strategy().has_auto_();
  if (is_auto || spec.strategy().has_slipstream()) {
    problems.Add("shards",
                 StrCat("is ", shards, " beside strategy ", is_auto ? "auto" : "slipstream",
                        ", which only has whole models so far; give strategy ddp, "
                        "local_sgd or hsgd, or shards: 1"));
  }
  if (spec.stragglers().mode() == v1::STRAGGLER_MODE_AUTO) {
    problems.Add(
        "stragglers.mode",
        StrCat("is auto beside shards ", shards,
               ": ranks of a replica wait for each other within their passes, so it is not "
               "certain which one is slow; allowed are off, advise"));
  }
}

}  // namespace paceline
