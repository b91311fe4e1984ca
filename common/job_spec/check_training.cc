// What is trained, on what, and by which steps.
#include <cstddef>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/compiled_files.h"
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

void CheckHash(const std::string& field, const std::string& hash, ProblemList& problems) {
  constexpr size_t kDigits = 48;
  const bool sound =
      hash.size() == kDigits && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hash.empty() || sound) return;
  problems.Add(field, StrCat("is no hash of a file; allowed are ", kDigits,
                             " hexadecimal digits in lower case, as in the header of a token file "
                             "(docs/token-files.md)"));
}

void CheckWeights(const v1::Data& data, ProblemList& problems) {
  constexpr double kLeastShare = 1e-6;
  double sum = 0;
  int weighted = 0;
  for (const v1::DataSource& source : data.sources()) {
    sum += source.weight();
    if (source.weight() != 0) ++weighted;
  }
  if (weighted == 0) return;
  for (int i = 0; i < data.sources_size(); ++i) {
    const std::string field = StrCat("data.sources[", i, "].weight");
    if (problems.Tells(field)) return;
    const double weight = data.sources(i).weight();
    if (weight == 0) {
      problems.Add(field, "is missing, and other files have one; give all of them one, or none");
    } else if (!(weight / sum >= kLeastShare)) {
      problems.Add(field, StrCat("is ", weight, ", less than a millionth of the sum of all (", sum,
                                 "); give a larger one, or leave the file out"));
    }
  }
}

void CheckSources(const v1::Data& data, ProblemList& problems) {
  constexpr int kMostSources = 256;
  if (data.sources_size() > kMostSources) {
    problems.Add("data.sources", StrCat("has ", data.sources_size(), " files; allowed are ",
                                        kMostSources, ": join files into larger ones"));
    return;
  }
  std::set<std::string> paths;
  for (int i = 0; i < data.sources_size(); ++i) {
    const v1::DataSource& source = data.sources(i);
    const std::string at = StrCat("data.sources[", i, "].");
    CheckHash(at + "hash", source.hash(), problems);
    if (source.path().empty()) {
      problems.Add(at + "path", "is missing; give the file");
    } else if (!paths.insert(source.path()).second) {
      problems.Add(at + "path",
                   "is that of an earlier entry; give each file once, and a larger "
                   "weight if it should come more often");
    }
  }
  CheckWeights(data, problems);
}

}  // namespace

void CheckModel(const v1::Model& model, ProblemList& problems) {
  if (model.kind_case() == v1::Model::KIND_NOT_SET) {
    problems.Add("model.kind",
                 "is missing; allowed is resnet18, mlp, llama, torchscript, compiled");
  }
  if (model.has_llama()) CheckLlama(model.llama(), problems);
  if (model.has_torchscript() && model.torchscript().file().empty()) {
    problems.Add("model.torchscript.file", "is missing; give the file of the scripted module");
  }
  const std::string& compiled = model.compiled().file();
  if (model.has_compiled() && !absl::EndsWith(compiled, kCompiledSuffix)) {
    problems.Add("model.compiled.file",
                 compiled.empty() ? "is missing; give the file that python -m paceline.export wrote"
                                  : StrCat("does not end in ", kCompiledSuffix,
                                           "; give the file that python -m paceline.export wrote"));
  }
}

void CheckCompiled(const v1::JobSpec& spec, ProblemList& problems) {
  if (!spec.model().has_compiled()) return;
  if (!problems.Tells("precision") && spec.precision() != v1::FP32) {
    problems.Add("precision", StrCat("is ", EnumName(*v1::Precision_descriptor(), spec.precision()),
                                     " beside model compiled, which computes as it was exported; "
                                     "leave it out, and export with --precision bf16"));
  }
  if (spec.device() == v1::CUDA) {
    problems.Add(
        "device",
        "is cuda beside model compiled, which runs on CPUs only so far; give cpu, or train "
        "a torchscript model or a session");
  }
}

int LeastSamples(const v1::Model& model) {
  // Compiled for one number of samples.
  if (model.has_compiled()) return std::numeric_limits<int>::max();
  // What is in a module, nobody knows before it runs.
  return model.has_resnet18() || model.has_torchscript() ? 2 : 1;
}

bool UpdatesInBackward(const v1::JobSpec& spec) {
  const v1::Model& model = spec.model();
  const bool knows_model = model.has_llama() || model.has_resnet18() || model.has_mlp();
  const bool shares_nothing = spec.ranks() == 1 && spec.recovery().max_failures() == 0 &&
                              spec.shards() <= 1 && spec.strategy().has_ddp();
  const bool needs_all = spec.clip_grad_norm() > 0 || spec.accumulation_steps() != 1 ||
                         spec.on_nonfinite() != v1::NON_FINITE_IGNORE;
  return spec.device() != v1::CUDA && knows_model && shares_nothing && !needs_all;
}

void CheckData(const v1::Data& data, ProblemList& problems) {
  CheckHash("data.train_hash", data.train_hash(), problems);
  if (data.sources().empty()) {
    if (data.train().empty()) {
      problems.Add("data.train", "is missing; give the file with the training samples");
    }
    return;
  }
  if (!data.train().empty()) {
    problems.Add("data.sources", "is a list beside one file; give the one or the other");
  }
  if (!data.train_hash().empty()) {
    problems.Add("data.train_hash",
                 "is given beside a list; give each file of data.train its hash instead");
  }
  CheckSources(data, problems);
}

void CheckDropLast(const v1::JobSpec& spec, ProblemList& problems) {
  constexpr char kKey[] = "data.drop_last";
  if (spec.data().drop_last()) return;
  if (!spec.strategy().has_ddp()) {
    problems.Add(kKey,
                 "is false beside a strategy in which the gradients of all ranks are not averaged "
                 "at each step: some would train on no samples; it needs strategy ddp");
  } else if (spec.shards() > 1) {
    problems.Add(kKey, "is false beside shards, whose ranks need as many samples each");
  } else if (spec.model().has_torchscript()) {
    problems.Add(
        kKey,
        "is false beside model torchscript, of which nobody knows whether it trains on one "
        "sample, or none");
  } else if (spec.model().has_compiled()) {
    problems.Add(kKey, "is false beside model compiled, whose batches are all of one size");
  } else if (spec.cuda_graph()) {
    problems.Add(kKey, "is false beside cuda_graph, whose batches are all of one size");
  } else if (!spec.data().sources().empty() && spec.data().sources(0).weight() != 0) {
    problems.Add(kKey,
                 "is false beside files with weights, which are a mixture without an end: leave "
                 "one of the two out");
  }
}

void CheckSyncBatchNorm(const v1::JobSpec& spec, ProblemList& problems) {
  const v1::Strategy& strategy = spec.strategy();
  if (!spec.model().resnet18().sync_batchnorm() || strategy.has_ddp()) return;
  const bool has_groups = strategy.has_hsgd() || strategy.has_local_sgd();
  if (has_groups && strategy.gradient_group_size() > 1) return;
  problems.Add("model.resnet18.sync_batchnorm",
               StrCat("is true beside a strategy whose ranks do not wait for each other at every "
                      "step; it needs strategy ddp",
                      has_groups ? ", or a strategy.gradient_group_size of 2 and more" : ""));
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
