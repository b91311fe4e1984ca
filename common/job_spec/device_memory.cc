#include "common/job_spec/device_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/bytes_text.h"
#include "common/core/model_memory.h"

namespace paceline {
namespace {

constexpr int kMostShards = 1024;

// A training that needs less memory, and the keys of the job file that make it so.
struct Change {
  std::string keys;
  LlamaTraining training;
};

LlamaTraining TrainingOf(const v1::JobSpec& spec) {
  const v1::Llama& llama = spec.model().llama();
  LlamaTraining training;
  training.size = {llama.dim(),     llama.layers(),     llama.heads(),         llama.kv_heads(),
                   llama.ffn_dim(), llama.vocab_size(), llama.tie_embeddings()};
  training.tokens = static_cast<double>(spec.batch_per_rank()) *
                    static_cast<double>(spec.data().sequence_length());
  training.bf16 = spec.precision() == v1::BF16;
  training.checkpoint_activations = llama.checkpoint_activations();
  if (spec.optimizer().has_adamw()) training.optimizer_floats = 2;
  if (spec.optimizer().sgd().momentum() > 0) training.optimizer_floats = 1;
  training.gradients_stay =
      spec.accumulation_steps() > 1 || (spec.ranks() > 1 && spec.strategy().has_ddp());
  training.shards = std::max(1, spec.shards());
  return training;
}

double Need(const LlamaTraining& training) { return TotalBytes(LlamaMemory(training)); }

std::string Text(double bytes) {
  constexpr double kMost = 9e18;
  return BytesText(static_cast<int64_t>(std::min(bytes, kMost)));
}

// The most samples below those of the job with which `training` fits; 0: none.
int LargestBatch(const v1::JobSpec& spec, LlamaTraining training, double device_bytes) {
  const auto length = static_cast<double>(spec.data().sequence_length());
  int fits = 0;
  int too_many = spec.batch_per_rank();
  while (fits + 1 < too_many) {
    const int batch = fits + (too_many - fits) / 2;
    training.tokens = batch * length;
    if (Need(training) <= device_bytes) {
      fits = batch;
    } else {
      too_many = batch;
    }
  }
  return fits;
}

// Each changes one key.
std::vector<Change> SingleChanges(const v1::JobSpec& spec, const LlamaTraining& training,
                                  double device_bytes) {
  std::vector<Change> changes;
  if (!training.checkpoint_activations) {
    changes.push_back({"model.checkpoint_activations: true", training});
    changes.back().training.checkpoint_activations = true;
  }
  if (!training.bf16) {
    changes.push_back({"precision: bf16", training});
    changes.back().training.bf16 = true;
  }
  if (const int batch = LargestBatch(spec, training, device_bytes); batch > 0) {
    changes.push_back({absl::StrCat("batch_per_rank: ", batch), training});
    changes.back().training.tokens = batch * static_cast<double>(spec.data().sequence_length());
  }
  return changes;
}

// All that saves memory on one device.
Change AllChanges(const v1::JobSpec& spec, const LlamaTraining& training) {
  Change all{"", training};
  std::vector<std::string> keys;
  if (!std::exchange(all.training.checkpoint_activations, true)) {
    keys.emplace_back("model.checkpoint_activations: true");
  }
  if (!std::exchange(all.training.bf16, true)) keys.emplace_back("precision: bf16");
  if (spec.batch_per_rank() > 1) {
    keys.emplace_back("batch_per_rank: 1");
    all.training.tokens = static_cast<double>(spec.data().sequence_length());
  }
  all.keys = absl::StrJoin(keys, ", ");
  return all;
}

// The fewest shards, a power of two, with which it fits.
Change WithShards(const Change& all, double device_bytes) {
  Change sharded = all;
  for (int shards = 2; shards <= kMostShards; shards *= 2) {
    sharded.training.shards = shards;
    if (Need(sharded.training) > device_bytes) continue;
    sharded.keys = absl::StrCat("shards: ", shards, all.keys.empty() ? "" : ", ", all.keys);
    break;
  }
  return sharded;
}

// What to do, as the end of the message.
std::string Remedy(const v1::JobSpec& spec, const LlamaTraining& training, double device_bytes) {
  const auto text = [](const Change& change) {
    return absl::StrCat(change.keys, " (", Text(Need(change.training)), ")");
  };
  std::vector<std::string> alone;
  for (const Change& change : SingleChanges(spec, training, device_bytes)) {
    if (Need(change.training) <= device_bytes) alone.push_back(text(change));
  }
  if (!alone.empty()) {
    return absl::StrCat("it would fit with ", absl::StrJoin(alone, ", or with "));
  }
  const Change all = AllChanges(spec, training);
  if (Need(all.training) <= device_bytes) {
    return absl::StrCat("it would fit with all of ", text(all));
  }
  const Change sharded = WithShards(all, device_bytes);
  if (Need(sharded.training) <= device_bytes) {
    return absl::StrCat("it would fit with ", text(sharded));
  }
  return "no key makes it fit: take a smaller model or sequence_length, or add nodes with more "
         "memory";
}

}  // namespace

absl::Status CheckDeviceMemory(const v1::JobSpec& spec, int64_t device_bytes) {
  if (!spec.command().empty() || !spec.model().has_llama()) return absl::OkStatus();
  const LlamaTraining training = TrainingOf(spec);
  const std::vector<MemoryPart> parts = LlamaMemory(training);
  const auto available = static_cast<double>(device_bytes);
  if (TotalBytes(parts) <= available) return absl::OkStatus();
  const char* const device = spec.device() == v1::CUDA ? "GPU" : "node";
  std::string lines;
  for (const MemoryPart& part : parts) {
    absl::StrAppend(&lines, "\n  ", part.what, ": ", part.formula, " = ", Text(part.bytes));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("a rank needs at least ", Text(TotalBytes(parts)), " of memory, and no ", device,
                   " where the job may run has more than ", Text(available), ":", lines, "\n",
                   Remedy(spec, training, available)));
}

}  // namespace paceline
