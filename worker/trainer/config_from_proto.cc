#include "worker/trainer/config_from_proto.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"
#include "worker/trainer/job_sizes.h"
#include "worker/trainer/messages_from_proto.h"

namespace paceline {
namespace {

using absl::StrCat;

LlamaConfig ReadLlama(const v1::Llama& proto) {
  LlamaConfig llama;
  llama.dim = proto.dim();
  llama.layers = proto.layers();
  llama.heads = proto.heads();
  llama.kv_heads = proto.kv_heads();
  llama.ffn_dim = proto.ffn_dim();
  llama.vocab_size = proto.vocab_size();
  llama.rope_theta = proto.rope_theta();
  llama.norm_epsilon = proto.norm_epsilon();
  llama.tie_embeddings = proto.tie_embeddings();
  llama.checkpoint_activations = proto.checkpoint_activations();
  return llama;
}

ModelConfig ReadModel(const v1::Model& proto) {
  ModelConfig model;
  if (proto.has_mlp()) {
    model.kind = ModelConfig::Kind::kMlp;
    model.hidden.assign(proto.mlp().hidden().begin(), proto.mlp().hidden().end());
  } else if (proto.has_llama()) {
    model.kind = ModelConfig::Kind::kLlama;
    model.llama = ReadLlama(proto.llama());
  } else if (proto.has_torchscript()) {
    model.kind = ModelConfig::Kind::kTorchScript;
    model.torchscript_file = proto.torchscript().file();
    model.unused_parameters = proto.torchscript().unused_parameters();
  } else if (proto.has_compiled()) {
    model.kind = ModelConfig::Kind::kCompiled;
    model.compiled_file = proto.compiled().file();
  } else {
    model.kind = ModelConfig::Kind::kResNet18;
    model.sync_batchnorm = proto.resnet18().sync_batchnorm();
  }
  return model;
}

DataConfig::TokenType ReadTokenType(v1::TokenType type) {
  switch (type) {
    case v1::TOKEN_TYPE_UINT16:
      return DataConfig::TokenType::kUint16;
    case v1::TOKEN_TYPE_UINT32:
      return DataConfig::TokenType::kUint32;
    default:
      return DataConfig::TokenType::kInHeader;
  }
}

DataConfig ReadData(const v1::Data& proto) {
  DataConfig data;
  data.train = proto.train();
  data.train_hash = proto.train_hash();
  for (const v1::DataSource& source : proto.sources()) {
    data.sources.push_back({source.path(), source.weight(), source.hash()});
  }
  data.eval = proto.eval();
  data.shuffle = proto.order() != v1::SEQUENTIAL;
  data.drop_last = proto.drop_last();
  data.sequence_length = proto.sequence_length();
  data.token_type = ReadTokenType(proto.token_type());
  data.prefetch_threads = proto.prefetch_threads();
  data.prefetch_batches = proto.prefetch_batches();
  return data;
}

OptimizerConfig ReadOptimizer(const v1::Optimizer& proto) {
  OptimizerConfig optimizer;
  optimizer.weight_decay = proto.weight_decay();
  if (proto.has_adamw()) {
    optimizer.kind = OptimizerConfig::Kind::kAdamW;
    optimizer.beta1 = proto.adamw().beta1();
    optimizer.beta2 = proto.adamw().beta2();
    optimizer.epsilon = proto.adamw().epsilon();
  } else {
    optimizer.kind = OptimizerConfig::Kind::kSgd;
    optimizer.momentum = proto.sgd().momentum();
    optimizer.nesterov = proto.sgd().nesterov();
  }
  return optimizer;
}

LrSchedule ReadSchedule(const v1::JobSpec& spec) {
  LrSchedule schedule;
  schedule.peak = spec.optimizer().learning_rate();
  schedule.steps = spec.steps();
  schedule.warmup_steps = spec.schedule().warmup_steps();
  if (spec.schedule().has_cosine()) {
    schedule.kind = LrSchedule::Kind::kCosine;
    schedule.final_ratio = spec.schedule().cosine().final_ratio();
    if (spec.schedule().cosine().steps() > 0) schedule.steps = spec.schedule().cosine().steps();
  } else if (spec.schedule().has_step()) {
    schedule.kind = LrSchedule::Kind::kStep;
    schedule.every = spec.schedule().step().every();
    schedule.gamma = spec.schedule().step().gamma();
  }
  schedule.full_ranks = std::max(1, spec.ranks());
  if (spec.schedule().scale_with_ranks() == v1::RANK_SCALE_LINEAR) {
    schedule.rank_scale = LrSchedule::RankScale::kLinear;
  } else if (spec.schedule().scale_with_ranks() == v1::RANK_SCALE_SQRT) {
    schedule.rank_scale = LrSchedule::RankScale::kSqrt;
  }
  return schedule;
}

// What a session brings itself.
void ReadBuiltIn(const v1::JobSpec& spec, TrainerConfig& config) {
  config.model = ReadModel(spec.model());
  config.data = ReadData(spec.data());
  config.data.vocab_size = config.model.llama.vocab_size;
  config.sizes = SizesOf(spec);
  config.optimizer = ReadOptimizer(spec.optimizer());
  config.optimizer.compensated = spec.precision() == v1::BF16_FULL;
  config.schedule = ReadSchedule(spec);
  if (spec.zero_stage() > 0) config.zero_stage = spec.zero_stage();
}

StrategyConfig ReadStrategy(const v1::Strategy& proto) {
  StrategyConfig strategy;
  if (proto.has_local_sgd()) strategy.kind = StrategyConfig::Kind::kLocalSgd;
  if (proto.has_hsgd()) strategy.kind = StrategyConfig::Kind::kHsgd;
  if (proto.has_slipstream()) strategy.kind = StrategyConfig::Kind::kSlipstream;
  if (proto.has_auto_()) strategy.kind = StrategyConfig::Kind::kAuto;
  strategy.warmup_steps = proto.warmup_steps();
  strategy.average_optimizer_state = proto.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE;
  return strategy;
}

NonFinite ReadNonFinite(v1::NonFinite proto) {
  switch (proto) {
    case v1::NON_FINITE_SKIP:
      return NonFinite::kSkip;
    case v1::NON_FINITE_IGNORE:
      return NonFinite::kIgnore;
    default:
      return NonFinite::kStop;
  }
}

FaultConfig::Kind ReadFaultKind(v1::FaultKind kind) {
  switch (kind) {
    case v1::ABORT:
      return FaultConfig::Kind::kAbort;
    case v1::EXIT:
      return FaultConfig::Kind::kExit;
    case v1::OUT_OF_MEMORY:
      return FaultConfig::Kind::kOutOfMemory;
    case v1::SLEEP:
      return FaultConfig::Kind::kSleep;
    case v1::NAN_LOSS:
      return FaultConfig::Kind::kNanLoss;
    case v1::SLOW:
      return FaultConfig::Kind::kSlow;
    case v1::LOADER_STALL:
      return FaultConfig::Kind::kLoaderStall;
    case v1::COMMUNICATION_DELAY:
      return FaultConfig::Kind::kCommunicationDelay;
    case v1::MEMORY_GROWTH:
      return FaultConfig::Kind::kMemoryGrowth;
    case v1::FREEZE:
      return FaultConfig::Kind::kFreeze;
    case v1::FLIP_BIT:
      return FaultConfig::Kind::kFlipBit;
    case v1::KILL:
      return FaultConfig::Kind::kKill;
    default:
      return FaultConfig::Kind::kThrow;
  }
}

FaultConfig ReadFault(const v1::Fault& proto) {
  FaultConfig fault;
  fault.kind = ReadFaultKind(proto.kind());
  fault.rank = proto.rank();
  fault.generation = proto.generation();
  fault.step = proto.step();
  fault.steps = proto.steps();
  fault.probability = proto.probability();
  fault.duration = absl::Seconds(proto.seconds());
  fault.factor = proto.factor();
  fault.bytes = static_cast<int64_t>(proto.megabytes() * 1e6);
  fault.until_file = proto.until_file();
  return fault;
}

CheckpointConfig ReadCheckpoint(const v1::CheckpointPolicy& proto) {
  constexpr double kBytesPerMegabyte = 1e6;
  CheckpointConfig checkpoint;
  checkpoint.directory = proto.directory();
  checkpoint.every_steps = proto.every_steps();
  checkpoint.at_end = proto.at_end();
  checkpoint.expected =
      proto.every_steps() > 0 || proto.every_s() > 0 || proto.auto_interval() || proto.at_end();
  checkpoint.wait_when_busy = proto.when_busy() == v1::WHEN_BUSY_WAIT;
  checkpoint.write_limit = proto.write_limit_mb_s() * kBytesPerMegabyte;
  checkpoint.sample_ledger = proto.sample_ledger();
  return checkpoint;
}

// Without the environment of a session, which may hold secrets.
absl::StatusOr<std::string> SpecAsJson(v1::JobSpec spec) {
  spec.clear_environment();
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(spec, &json, options);
  if (status.ok()) return json;
  return absl::InternalError(StrCat("the job spec as JSON: ", status.ToString()));
}

ObjectStoreConfig ReadObjectStores(const v1::ObjectStores& proto) {
  ObjectStoreConfig stores;
  stores.allowed.assign(proto.allowed().begin(), proto.allowed().end());
  stores.cache_directory = proto.cache_directory();
  stores.cache_bytes = proto.cache_bytes();
  return stores;
}

absl::Status CheckSlot(const v1::TrainerConfig& proto) {
  if (proto.world_size() < 1 || proto.id().rank() < 0 || proto.threads() < 1 || proto.slot() < 0) {
    return absl::InvalidArgumentError(StrCat("impossible rank or slot: rank ", proto.id().rank(),
                                             " of ", proto.world_size(), ", slot ", proto.slot(),
                                             ", ", proto.threads(), " threads"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainerConfig> ConfigFromProto(const v1::TrainerConfig& proto) {
  PACELINE_RETURN_IF_ERROR(CheckSlot(proto));
  v1::JobSpec spec = proto.spec();
  FillDefaults(&spec);
  std::string problems;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    if (problem.field == "shards") continue;  // The workload says whether its model can have them.
    absl::StrAppend(&problems, problems.empty() ? "" : "; ", problem.field, " ", problem.message);
  }
  if (!problems.empty()) return absl::InvalidArgumentError(problems);

  TrainerConfig config;
  config.id.job = JobId(proto.id().job_id());
  config.id.generation = Generation(proto.id().generation());
  config.id.rank = Rank(proto.id().rank());
  config.member.generation = proto.id().generation();
  config.member.rank = proto.id().rank() < proto.world_size() ? proto.id().rank() : -1;
  config.member.world_size = proto.world_size();
  config.member.shards = std::max(spec.shards(), 1);
  config.member.batch = spec.batch_per_rank();
  config.member.accumulation_steps = spec.accumulation_steps();
  PACELINE_RETURN_IF_ERROR(CheckReplicas(config.member));
  config.slot = proto.slot();
  config.threads = proto.threads();
  config.interface = proto.interface();
  config.cuda = spec.device() == v1::CUDA;
  config.bf16 = spec.precision() == v1::BF16 || spec.precision() == v1::BF16_FULL;
  config.session = spec.session();
  if (!config.session) ReadBuiltIn(spec, config);
  config.steps = spec.steps();
  config.strategy = ReadStrategy(spec.strategy());
  config.gradient_format = WireFormatFromProto(spec.gradient_format());
  config.clip_grad_norm = spec.clip_grad_norm();
  config.on_nonfinite = ReadNonFinite(spec.on_nonfinite());
  config.seed = static_cast<uint64_t>(spec.seed());
  config.eval_every = spec.evaluation().every();
  config.checkpoint = ReadCheckpoint(spec.checkpoint());
  config.restore_from = proto.restore_from();
  config.local_world_size = std::max(1, proto.local_world_size());
  config.local_rank = std::clamp(proto.local_rank(), 0, config.local_world_size - 1);
  config.data.object_stores = ReadObjectStores(proto.object_stores());
  config.checkpoint.roots.assign(proto.allowed_roots().begin(), proto.allowed_roots().end());
  PACELINE_ASSIGN_OR_RETURN(config.spec_json, SpecAsJson(spec));
  config.init_from = spec.init_from();
  config.export_final = spec.export_final();
  config.save_nan = spec.save_nan();
  config.log_every = spec.log_every();
  config.startup_timeout = absl::Seconds(spec.startup_timeout_s());
  config.collective_timeout = absl::Seconds(spec.collective_timeout_s());
  config.peak_flops = spec.peak_flops();
  config.flops_per_sample = spec.flops_per_sample();
  config.count_flops = spec.count_flops();
  config.cuda_graph = spec.cuda_graph();
  config.updates_in_backward = UpdatesInBackward(spec);
  for (const v1::Fault& fault : spec.chaos()) {
    config.chaos.push_back(ReadFault(fault));
  }
  config.recovery.enabled = spec.recovery().max_failures() > 0;
  config.recovery.give_up = absl::Seconds(spec.give_up_s());
  config.recovery.copy_every_steps = spec.recovery().copy_every_steps();
  return config;
}

}  // namespace paceline
