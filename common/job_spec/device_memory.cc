#include "common/job_spec/device_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/core/bytes_text.h"
#include "common/core/model_memory.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

// How many numbers of samples are tried for one that the job's other keys allow.
constexpr int kBatchesTried = 16;

// The job with some keys changed, so that it needs less memory.
struct Change {
  std::string keys;  // "precision: bf16, batch_per_rank: 4"
  v1::JobSpec spec;
};

// Whether a format has a reference and rounding errors where parameters travel in it.
bool IsQuantized(v1::WireFormat format) {
  return format != v1::WIRE_FORMAT_UNSPECIFIED && format != v1::WIRE_FORMAT_FP32;
}

// Levels that certainly send something in such a format: nodes and racks may have one replica each.
int QuantizedLevels(const v1::JobSpec& spec, int most_ranks) {
  if (most_ranks <= std::max(1, spec.shards())) return 0;
  int levels = IsQuantized(spec.strategy().local_sgd().format()) ? 1 : 0;
  for (const v1::LadderLevel& level : spec.strategy().hsgd().ladder()) {
    const bool has_peers = level.size() > 1 || level.level() == v1::SCOPE_ALL;
    if (has_peers && IsQuantized(level.format())) ++levels;
  }
  return levels;
}

bool HasQuantizedGradients(const v1::JobSpec& spec) {
  const v1::WireFormat format = spec.gradient_format();
  return !spec.strategy().has_slipstream() &&
         (format == v1::WIRE_FORMAT_INT8 || format == v1::WIRE_FORMAT_FP8);
}

void NoteOuter(const v1::Outer& outer, LlamaTraining* training) {
  ++training->outer_levels;
  const bool is_streamed = outer.fragments() > 1 || outer.delay() > 0 || outer.alpha() > 0;
  if (is_streamed) training->fragments = std::max(1, outer.fragments());
}

LlamaTraining TrainingOf(const v1::JobSpec& spec) {
  const v1::Llama& llama = spec.model().llama();
  LlamaTraining training;
  training.size = {llama.dim(),     llama.layers(),     llama.heads(),         llama.kv_heads(),
                   llama.ffn_dim(), llama.vocab_size(), llama.tie_embeddings()};
  training.tokens = static_cast<double>(spec.batch_per_rank()) *
                    static_cast<double>(spec.data().sequence_length());
  training.bf16_weights = spec.precision() == v1::BF16_FULL;
  training.bf16 = spec.precision() == v1::BF16 || training.bf16_weights;
  training.checkpoint_activations = llama.checkpoint_activations();
  if (spec.optimizer().has_adamw()) training.optimizer_values = 2;
  if (spec.optimizer().sgd().momentum() > 0) training.optimizer_values = 1;
  training.shards = std::max(1, spec.shards());
  training.zero_stage = spec.zero_stage();
  const int most_ranks = std::max(spec.ranks(), spec.recovery().max_ranks());
  const bool in_buckets = training.shards == 1 && most_ranks > 1 && spec.strategy().has_ddp();
  training.gradients_stay = spec.accumulation_steps() > 1 || in_buckets;
  training.updates_in_backward = UpdatesInBackward(spec);
  training.logits_in_place = spec.device() != v1::CUDA;
  for (const v1::LadderLevel& level : spec.strategy().hsgd().ladder()) {
    if (level.has_outer()) NoteOuter(level.outer(), &training);
  }
  if (spec.strategy().local_sgd().has_outer()) {
    NoteOuter(spec.strategy().local_sgd().outer(), &training);
  }
  training.quantized_levels = QuantizedLevels(spec, most_ranks);
  training.quantized_gradients = HasQuantizedGradients(spec);
  const bool has_copies = spec.recovery().copy_every_steps() > 0;
  if (has_copies && spec.device() != v1::CUDA) training.copies = kCopiesKept;
  return training;
}

double Need(const v1::JobSpec& spec) { return TotalBytes(LlamaMemory(TrainingOf(spec))); }

// Whether the job has few enough bytes and no problem otherwise, so that it would be accepted.
bool Fits(const v1::JobSpec& spec, double device_bytes) {
  return Need(spec) <= device_bytes && CheckJobSpec(spec).empty();
}

std::string Text(double bytes) {
  constexpr double kMost = 9e18;
  return BytesText(static_cast<int64_t>(std::min(bytes, kMost)));
}

std::string Text(const Change& change) {
  return absl::StrCat(change.keys, " (", Text(Need(change.spec)), ")");
}

void AddKey(absl::string_view key, Change& change) {
  absl::StrAppend(&change.keys, change.keys.empty() ? "" : ", ", key);
}

// Changes nothing, like the two below, if the job cannot save memory so.
Change WithCheckpointing(Change change) {
  if (change.spec.model().llama().checkpoint_activations()) return change;
  change.spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  AddKey("model.checkpoint_activations: true", change);
  return change;
}

Change WithBf16(Change change) {
  if (TrainingOf(change.spec).bf16) return change;
  change.spec.set_precision(v1::BF16);
  AddKey("precision: bf16", change);
  return change;
}

// Takes about the most samples, below those of the job, with which it fits.
Change WithSmallerBatch(Change change, double device_bytes) {
  v1::JobSpec smaller = change.spec;
  int enough = 0;
  int too_many = smaller.batch_per_rank();
  while (enough + 1 < too_many) {
    const int batch = enough + (too_many - enough) / 2;
    smaller.set_batch_per_rank(batch);
    (Need(smaller) <= device_bytes ? enough : too_many) = batch;
  }
  // If the job may shrink, fewer ranks must be able to share the samples equally.
  for (int batch = enough; batch > std::max(0, enough - kBatchesTried); --batch) {
    smaller.set_batch_per_rank(batch);
    if (!Fits(smaller, device_bytes)) continue;
    change.spec = smaller;
    AddKey(absl::StrCat("batch_per_rank: ", batch), change);
    break;
  }
  return change;
}

Change Divided(Change change, int shards, int stage) {
  if (shards != change.spec.shards()) AddKey(absl::StrCat("shards: ", shards), change);
  if (stage == 3 && change.spec.zero_stage() != 3) AddKey("zero_stage: 3", change);
  change.spec.set_shards(shards);
  change.spec.set_zero_stage(stage);
  return change;
}

// Divides the model among the fewest of the job's ranks with which it fits. If it never does, the
// same with fewer samples.
Change WithShards(const Change& change, double device_bytes) {
  const v1::JobSpec& spec = change.spec;
  for (const bool smaller : {false, true}) {
    for (int shards = std::max(2, spec.shards()); shards <= spec.ranks(); ++shards) {
      if (spec.ranks() % shards != 0) continue;
      for (int stage = std::max(2, spec.zero_stage()); stage <= 3; ++stage) {
        Change divided = Divided(change, shards, stage);
        if (smaller) divided = WithSmallerBatch(std::move(divided), device_bytes);
        if (Fits(divided.spec, device_bytes)) return divided;
      }
    }
  }
  return change;
}

// The job with as little memory for each token as its other keys allow.
v1::JobSpec Least(const Change& change) {
  const Change divided = Divided(change, change.spec.ranks(), /*stage=*/3);
  return CheckJobSpec(divided.spec).empty() ? divided.spec : change.spec;
}

// What to do, as the end of the message.
std::string Remedy(const v1::JobSpec& spec, double device_bytes) {
  const Change none{"", spec};
  std::vector<std::string> alone;
  for (const Change& change :
       {WithCheckpointing(none), WithBf16(none), WithSmallerBatch(none, device_bytes)}) {
    if (Fits(change.spec, device_bytes)) alone.push_back(Text(change));
  }
  if (!alone.empty()) {
    return absl::StrCat("by this count it would fit with ", absl::StrJoin(alone, ", or with "));
  }
  Change all = WithBf16(WithCheckpointing(none));
  if (!Fits(all.spec, device_bytes)) all = WithSmallerBatch(std::move(all), device_bytes);
  if (!Fits(all.spec, device_bytes)) all = WithShards(all, device_bytes);
  if (Fits(all.spec, device_bytes)) {
    return absl::StrCat("by this count it would fit with all of ", Text(all));
  }
  v1::JobSpec least = Least(all);
  least.set_batch_per_rank(1);
  least.mutable_data()->set_sequence_length(1);
  const char* const smaller = Need(least) <= device_bytes ? "data.sequence_length" : "model";
  return absl::StrCat(
      "checkpoint_activations, bf16 and a smaller batch do not make it fit: take a smaller ",
      smaller, ", or add nodes with more memory");
}

}  // namespace

absl::Status CheckCopyMemory(const v1::JobSpec& spec, int64_t host_bytes) {
  if (!spec.command().empty() || !spec.model().has_llama() || spec.device() != v1::CUDA ||
      spec.recovery().copy_every_steps() == 0) {
    return absl::OkStatus();
  }
  const double copy = LlamaCopyBytes(TrainingOf(spec));
  const double needed = kCopiesKept * copy;
  if (needed <= static_cast<double>(host_bytes)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("recovery.copy_every_steps is ", spec.recovery().copy_every_steps(),
                   ", but a rank needs ", Text(needed), " of host memory for copies (", kCopiesKept,
                   " x ", Text(copy), "), and no node where the job may run has more than ",
                   Text(static_cast<double>(host_bytes)), "; give 0, or take a smaller model"));
}

absl::Status CheckDeviceMemory(const v1::JobSpec& spec, int64_t device_bytes) {
  if (!spec.command().empty() || !spec.model().has_llama()) return absl::OkStatus();
  const std::vector<MemoryPart> parts = LlamaMemory(TrainingOf(spec));
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
                   Remedy(spec, available)));
}

}  // namespace paceline
