#include <algorithm>
#include <cstdint>

#include "common/core/object_url.h"
#include "common/job_spec/job_key.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

// The table at LlamaPreset in proto/job_spec.proto.
struct PresetSizes {
  v1::LlamaPreset preset;
  int64_t dim, layers, heads, kv_heads, ffn_dim, vocab_size;
  double rope_theta;
  bool tie_embeddings;
};
constexpr PresetSizes kPresets[] = {
    {v1::LLAMA_PRESET_DEBUG, 256, 6, 16, 16, 768, 2048, 5e5, false},
    {v1::LLAMA_PRESET_160M, 768, 12, 12, 12, 2048, 50304, 1e4, false},
    {v1::LLAMA_PRESET_1B, 2048, 16, 32, 8, 8192, 128256, 5e5, true},
    {v1::LLAMA_PRESET_8B, 4096, 32, 32, 8, 14336, 128256, 5e5, false},
    {v1::LLAMA_PRESET_70B, 8192, 80, 64, 8, 28672, 128256, 5e5, false},
};

void FillLlama(v1::Llama* llama) {
  for (const PresetSizes& sizes : kPresets) {
    if (sizes.preset != llama->preset()) continue;
    if (llama->dim() == 0) llama->set_dim(sizes.dim);
    if (llama->layers() == 0) llama->set_layers(sizes.layers);
    if (llama->heads() == 0) llama->set_heads(sizes.heads);
    if (llama->kv_heads() == 0) llama->set_kv_heads(sizes.kv_heads);
    if (llama->ffn_dim() == 0) llama->set_ffn_dim(sizes.ffn_dim);
    if (llama->vocab_size() == 0) llama->set_vocab_size(sizes.vocab_size);
    if (llama->rope_theta() == 0) llama->set_rope_theta(sizes.rope_theta);
    if (!llama->has_tie_embeddings()) llama->set_tie_embeddings(sizes.tie_embeddings);
  }
}

void FillCheckpoint(v1::CheckpointPolicy* checkpoint) {
  if (checkpoint->has_at_end()) return;
  checkpoint->set_at_end(checkpoint->every_steps() > 0 || checkpoint->every_s() > 0 ||
                         checkpoint->auto_interval());
}

void FillRecovery(v1::JobSpec* spec) {
  v1::Recovery* recovery = spec->mutable_recovery();
  // Its changes of the generation need recovery.
  if (spec->strategy().has_auto_() && recovery->max_failures() == 0) {
    recovery->set_max_failures(3);
  }
  if (recovery->min_ranks() == 0 && recovery->max_failures() > 0) {
    recovery->set_min_ranks(spec->ranks());
  }
}

void FillTimeouts(v1::JobSpec* spec) {
  // Where a rank that hangs costs a moment only, it need not be borne for long.
  if (spec->collective_timeout_s() == 0) {
    spec->set_collective_timeout_s(spec->recovery().max_failures() > 0 ? 30 : 300);
  }
  const double collective = spec->collective_timeout_s();
  const double long_time = std::max(600.0, 3 * collective);
  if (spec->startup_timeout_s() == 0) spec->set_startup_timeout_s(long_time);
  if (spec->hang_timeout_s() == 0) spec->set_hang_timeout_s(collective * 2 / 3);
  if (spec->stall_warning_s() == 0) spec->set_stall_warning_s(spec->hang_timeout_s() / 2);
  if (spec->give_up_s() == 0) spec->set_give_up_s(long_time);
}

// `sgd`: the optimizer is known to be that.
void FillSlipstream(bool sgd, v1::Slipstream* slipstream) {
  if (slipstream->mode() == v1::SLIPSTREAM_UNSPECIFIED) {
    slipstream->set_mode(sgd ? v1::SLIPSTREAM_FREE : v1::SLIPSTREAM_DROP);
  }
  v1::SlipstreamWindow* window = slipstream->mutable_window();
  if (window->max_steps() == 0) window->set_max_steps(std::max<int64_t>(64, window->min_steps()));
  if (window->max_cap() == 0) {
    window->set_max_cap(std::min<int64_t>(4 * int64_t{window->max_steps()}, INT32_MAX));
  }
}

// Those of DiLoCo and of torchdistx's SlowMo.
void FillOuter(v1::Outer* outer) {
  const bool slow = outer->kind() == v1::OUTER_SLOWMO;
  if (outer->learning_rate() == 0) outer->set_learning_rate(slow ? 1 : 0.7);
  if (!outer->has_momentum()) outer->set_momentum(slow ? 0.5 : 0.9);
  // That of Streaming DiLoCo: without, what ranks learn during the delay would be lost.
  if (!outer->has_alpha() && outer->delay() > 0) outer->set_alpha(0.5);
}

void FillOuterSteps(google::protobuf::RepeatedPtrField<v1::LadderLevel>* ladder) {
  for (v1::LadderLevel& level : *ladder) {
    if (level.has_outer()) FillOuter(level.mutable_outer());
  }
}

void FillStrategy(v1::JobSpec* spec) {
  v1::Strategy* strategy = spec->mutable_strategy();
  if (strategy->has_ddp()) return;
  if (strategy->has_auto_()) {
    if (strategy->warmup_steps() == 0) strategy->set_warmup_steps(50);
    return;
  }
  if (strategy->has_slipstream()) {
    // Nobody knows the optimizer of a session before its program runs.
    const bool sgd = spec->command().empty() && !spec->optimizer().has_adamw();
    FillSlipstream(sgd, strategy->mutable_slipstream());
  }
  if (strategy->has_hsgd()) FillOuterSteps(strategy->mutable_hsgd()->mutable_ladder());
  if (strategy->local_sgd().has_outer()) FillOuter(strategy->mutable_local_sgd()->mutable_outer());
  if (strategy->optimizer_state() == v1::OPTIMIZER_STATE_UNSPECIFIED) {
    strategy->set_optimizer_state(v1::OPTIMIZER_STATE_LOCAL);
  }
}

void FillScript(v1::JobSpec* spec) {
  if (spec->stall_warning_s() == 0) spec->set_stall_warning_s(100);
  const bool unwatched = spec->has_watch() && !spec->watch();
  if (unwatched && spec->stragglers().mode() == v1::STRAGGLER_MODE_UNSPECIFIED) {
    spec->mutable_stragglers()->set_mode(v1::STRAGGLER_MODE_OFF);
  }
}

void FillSpecConstants(v1::JobSpec* spec) {
  for (int i = 0; i < v1::JobSpec::descriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *v1::JobSpec::descriptor()->field(i);
    // Without a directory there is nothing that they could be about.
    const bool unused = field.number() == v1::JobSpec::kCheckpointFieldNumber &&
                        spec->checkpoint().directory().empty();
    if (!unused && GoesWith(*spec, KeyOf(field))) FillConstant(field, spec);
  }
}

}  // namespace

bool HasEngine(const v1::JobSpec& spec) { return spec.command().empty() || spec.session(); }

bool ReadsObjects(const v1::Data& data) {
  const auto& sources = data.sources();
  return IsObjectUrl(data.train()) || IsObjectUrl(data.eval()) ||
         std::any_of(sources.begin(), sources.end(),
                     [](const v1::DataSource& source) { return IsObjectUrl(source.path()); });
}

void FillLadder(google::protobuf::RepeatedPtrField<v1::LadderLevel>* ladder) {
  for (v1::LadderLevel& level : *ladder) FillConstants(&level);
  FillOuterSteps(ladder);
}

void FillDefaults(v1::JobSpec* spec) {
  if (!HasEngine(*spec)) FillScript(spec);
  FillSpecConstants(spec);
  // The rest of a spec says nothing to a program that trains by itself.
  if (!HasEngine(*spec)) return;
  if (spec->model().has_mlp() && spec->model().mlp().hidden().empty()) {
    spec->mutable_model()->mutable_mlp()->add_hidden(128);
  }
  if (spec->model().has_llama()) {
    FillLlama(spec->mutable_model()->mutable_llama());
    if (spec->shards() > 1 && spec->zero_stage() == 0) spec->set_zero_stage(2);
  }
  if (!spec->checkpoint().directory().empty()) FillCheckpoint(spec->mutable_checkpoint());
  FillRecovery(spec);
  FillStrategy(spec);
  FillTimeouts(spec);
}

}  // namespace paceline
