#include <algorithm>
#include <cstdint>

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
};

void FillLlama(v1::Llama* llama) {
  if (llama->preset() == v1::LLAMA_PRESET_UNSPECIFIED) llama->set_preset(v1::LLAMA_PRESET_DEBUG);
  if (llama->norm_epsilon() == 0) llama->set_norm_epsilon(1e-5);
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

void FillModel(v1::Model* model) {
  if (model->has_mlp() && model->mlp().hidden().empty()) model->mutable_mlp()->add_hidden(128);
  if (model->has_llama()) FillLlama(model->mutable_llama());
}

void FillData(v1::Data* data) {
  if (data->order() == v1::DATA_ORDER_UNSPECIFIED) data->set_order(v1::SHUFFLE);
  if (data->sequence_length() == 0) data->set_sequence_length(256);
  if (!data->has_prefetch_threads()) data->set_prefetch_threads(1);
  if (data->prefetch_batches() == 0) data->set_prefetch_batches(2);
}

void FillOptimizer(v1::Optimizer* optimizer) {
  if (!optimizer->has_adamw()) return;
  v1::AdamW* adamw = optimizer->mutable_adamw();
  if (!adamw->has_beta1()) adamw->set_beta1(0.9);
  if (!adamw->has_beta2()) adamw->set_beta2(0.999);
  if (!adamw->has_epsilon()) adamw->set_epsilon(1e-8);
}

void FillSchedule(v1::Schedule* schedule) {
  if (schedule->kind_case() == v1::Schedule::KIND_NOT_SET) schedule->mutable_constant();
  if (schedule->has_step() && !schedule->step().has_gamma()) {
    schedule->mutable_step()->set_gamma(0.1);
  }
}

void FillCheckpoint(v1::CheckpointPolicy* checkpoint) {
  if (checkpoint->directory().empty()) return;
  if (!checkpoint->has_keep_latest()) checkpoint->set_keep_latest(3);
  if (!checkpoint->has_at_end()) {
    checkpoint->set_at_end(checkpoint->every_steps() > 0 || checkpoint->every_s() > 0 ||
                           checkpoint->auto_interval());
  }
  if (checkpoint->when_busy() == v1::WHEN_BUSY_UNSPECIFIED) {
    checkpoint->set_when_busy(v1::WHEN_BUSY_SKIP);
  }
  if (checkpoint->on_damage() == v1::ON_DAMAGE_UNSPECIFIED) {
    checkpoint->set_on_damage(v1::ON_DAMAGE_STOP);
  }
}

void FillRecovery(v1::JobSpec* spec) {
  v1::Recovery* recovery = spec->mutable_recovery();
  // Its changes of the generation need recovery.
  if (spec->strategy().has_auto_() && recovery->max_failures() == 0) {
    recovery->set_max_failures(3);
  }
  if (recovery->window_s() == 0) recovery->set_window_s(3600);
  if (recovery->min_ranks() == 0 && recovery->max_failures() > 0) {
    recovery->set_min_ranks(spec->ranks());
  }
  if (recovery->batch() == v1::BATCH_RULE_UNSPECIFIED) recovery->set_batch(v1::KEEP_GLOBAL_BATCH);
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

// The rest of a spec says nothing to a program that is not ours.
void FillCommand(v1::JobSpec* spec) {
  if (spec->stop_grace_s() == 0) spec->set_stop_grace_s(10);
  if (spec->stall_warning_s() == 0) spec->set_stall_warning_s(100);
  if (!spec->has_watch()) spec->set_watch(true);
  if (spec->stragglers().mode() == v1::STRAGGLER_MODE_UNSPECIFIED) {
    spec->mutable_stragglers()->set_mode(spec->watch() ? v1::STRAGGLER_MODE_ADVISE
                                                       : v1::STRAGGLER_MODE_OFF);
  }
}

void FillFault(v1::Fault* fault) {
  if (fault->steps() == 0) fault->set_steps(1);
  if (!fault->has_probability()) fault->set_probability(1);
}

void FillSlipstream(bool adamw, v1::Slipstream* slipstream) {
  if (slipstream->mode() == v1::SLIPSTREAM_UNSPECIFIED) {
    slipstream->set_mode(adamw ? v1::SLIPSTREAM_DROP : v1::SLIPSTREAM_FREE);
  }
  v1::SlipstreamWindow* window = slipstream->mutable_window();
  if (window->min_steps() == 0) window->set_min_steps(1);
  if (window->max_steps() == 0) window->set_max_steps(std::max<int64_t>(64, window->min_steps()));
  if (window->max_cap() == 0) {
    window->set_max_cap(std::min<int64_t>(4 * int64_t{window->max_steps()}, INT32_MAX));
  }
}

void FillStrategy(v1::JobSpec* spec) {
  v1::Strategy* strategy = spec->mutable_strategy();
  if (strategy->kind_case() == v1::Strategy::KIND_NOT_SET) strategy->mutable_ddp();
  if (strategy->has_ddp()) return;
  if (strategy->has_auto_()) {
    if (strategy->warmup_steps() == 0) strategy->set_warmup_steps(50);
    return;
  }
  if (strategy->has_slipstream()) {
    FillSlipstream(spec->optimizer().has_adamw(), strategy->mutable_slipstream());
  }
  if (strategy->has_hsgd()) FillLadder(strategy->mutable_hsgd()->mutable_ladder());
  if (strategy->optimizer_state() == v1::OPTIMIZER_STATE_UNSPECIFIED) {
    strategy->set_optimizer_state(v1::OPTIMIZER_STATE_LOCAL);
  }
}

}  // namespace

void FillLadder(google::protobuf::RepeatedPtrField<v1::LadderLevel>* ladder) {
  for (v1::LadderLevel& level : *ladder) {
    if (level.format() == v1::WIRE_FORMAT_UNSPECIFIED) level.set_format(v1::WIRE_FORMAT_FP32);
  }
}

void FillDefaults(v1::JobSpec* spec) {
  if (spec->ranks() == 0) spec->set_ranks(1);
  if (spec->device() == v1::DEVICE_UNSPECIFIED) spec->set_device(v1::CPU);
  if (spec->queue().empty()) spec->set_queue("default");
  if (!spec->command().empty()) return FillCommand(spec);
  if (spec->has_model()) FillModel(spec->mutable_model());
  FillData(spec->mutable_data());
  if (spec->batch_per_rank() == 0) spec->set_batch_per_rank(32);
  if (spec->has_optimizer()) FillOptimizer(spec->mutable_optimizer());
  FillSchedule(spec->mutable_schedule());
  if (spec->precision() == v1::PRECISION_UNSPECIFIED) spec->set_precision(v1::FP32);
  spec->mutable_evaluation();
  FillCheckpoint(spec->mutable_checkpoint());
  if (spec->log_every() == 0) spec->set_log_every(10);
  FillRecovery(spec);
  for (v1::Fault& fault : *spec->mutable_chaos()) FillFault(&fault);
  if (spec->stragglers().mode() == v1::STRAGGLER_MODE_UNSPECIFIED) {
    spec->mutable_stragglers()->set_mode(v1::STRAGGLER_MODE_ADVISE);
  }
  FillStrategy(spec);
  if (spec->accumulation_steps() == 0) spec->set_accumulation_steps(1);
  if (spec->on_nonfinite() == v1::NON_FINITE_UNSPECIFIED) {
    spec->set_on_nonfinite(v1::NON_FINITE_STOP);
  }
  if (spec->gradient_format() == v1::WIRE_FORMAT_UNSPECIFIED) {
    spec->set_gradient_format(v1::WIRE_FORMAT_FP32);
  }
  FillTimeouts(spec);
}

}  // namespace paceline
