#include "worker/trainer/config_from_proto.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"
#include "worker/trainer/job_sizes.h"

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

WireFormat ReadWireFormat(v1::WireFormat format) {
  switch (format) {
    case v1::WIRE_FORMAT_FP16:
      return WireFormat::kFp16;
    case v1::WIRE_FORMAT_BF16:
      return WireFormat::kBf16;
    case v1::WIRE_FORMAT_INT8:
      return WireFormat::kInt8;
    case v1::WIRE_FORMAT_FP8:
      return WireFormat::kFp8;
    default:
      return WireFormat::kFp32;
  }
}

OuterRule ReadOuter(const v1::Outer& proto) {
  OuterRule rule;
  rule.kind =
      proto.kind() == v1::OUTER_SLOWMO ? OuterRule::Kind::kSlowMo : OuterRule::Kind::kNesterov;
  rule.learning_rate = proto.learning_rate();
  rule.momentum = proto.momentum();
  rule.fragments = std::max(1, proto.fragments());
  rule.delay = proto.delay();
  rule.alpha = proto.alpha();
  return rule;
}

SlipstreamMode ReadMode(v1::SlipstreamMode mode) {
  switch (mode) {
    case v1::SLIPSTREAM_DROP:
      return SlipstreamMode::kDrop;
    case v1::SLIPSTREAM_FREE:
      return SlipstreamMode::kFree;
    case v1::SLIPSTREAM_PAUSE:
      return SlipstreamMode::kPause;
    default:
      return SlipstreamMode::kSync;
  }
}

SlipstreamPlan ReadSlipstream(int64_t version, const v1::SlipstreamPlan& proto) {
  SlipstreamPlan plan;
  plan.version = version;
  plan.mode = ReadMode(proto.mode());
  plan.window = {proto.window().min_steps(), proto.window().max_steps(), proto.window().max_cap()};
  plan.averages_state = proto.averages_state();
  return plan;
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

absl::StatusOr<CopyOrders> ReadCopies(const v1::Membership& membership) {
  const v1::MemberCopies& proto = membership.copies();
  const auto is_rank = [&](int rank) { return rank >= -1 && rank < membership.world_size(); };
  if (proto.seat() < 0 || !is_rank(proto.buddy_rank()) || !is_rank(proto.ward_rank()) ||
      proto.buddy_rank() == membership.rank() || proto.ward_rank() == membership.rank() ||
      (proto.restore() && proto.complete_step() < 1)) {
    return absl::InvalidArgumentError(StrCat("impossible copies: ", membership.ShortDebugString()));
  }
  CopyOrders orders;
  orders.generation = membership.generation();
  orders.seat = proto.seat();
  orders.buddy_rank = proto.buddy_rank();
  orders.ward_rank = proto.ward_rank();
  orders.complete_step = proto.complete_step();
  orders.complete_generation = proto.complete_generation();
  orders.settled_step = proto.settled_step();
  orders.restore = proto.restore();
  return orders;
}

absl::Status CheckReplicas(const Member& member) {
  if (member.world_size % member.shards == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat(member.world_size, " ranks are no whole replicas of ", member.shards, " shards"));
}

// Whether the rank that is handed over is one of the generation, and the trainer's own unless it
// leaves.
bool IsHandOverPossible(const v1::Membership& proto) {
  const int rank = proto.hand_over_rank();
  return !proto.has_hand_over_rank() ||
         (rank >= 0 && rank < proto.world_size() && (proto.rank() < 0 || proto.rank() == rank));
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
  config.gradient_format = ReadWireFormat(spec.gradient_format());
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

absl::StatusOr<Assignment> AssignmentFromProto(const v1::Membership& proto,
                                               const Member& configured) {
  if (proto.generation() < 1 || proto.world_size() < 1 || proto.rank() < -1 ||
      proto.rank() >= proto.world_size() || proto.batch_per_rank() < 0 ||
      proto.accumulation_steps() < 0 || proto.shards() < 0 || !IsHandOverPossible(proto)) {
    return absl::InvalidArgumentError(StrCat("impossible membership: ", proto.ShortDebugString()));
  }
  Assignment assignment;
  assignment.member = configured;
  assignment.member.generation = proto.generation();
  assignment.member.rank = proto.rank();
  assignment.member.world_size = proto.world_size();
  if (proto.shards() > 0) assignment.member.shards = proto.shards();
  PACELINE_RETURN_IF_ERROR(CheckReplicas(assignment.member));
  if (proto.batch_per_rank() > 0) assignment.member.batch = proto.batch_per_rank();
  if (proto.accumulation_steps() > 0) {
    assignment.member.accumulation_steps = proto.accumulation_steps();
  }
  assignment.store_address = proto.store_address();
  assignment.planned = proto.planned();
  if (proto.has_hand_over_rank()) assignment.hand_over_rank = proto.hand_over_rank();
  if (proto.has_copies()) {
    PACELINE_ASSIGN_OR_RETURN(assignment.copies, ReadCopies(proto));
  }
  return assignment;
}

TrainingPlan PlanFromProto(const v1::TrainingPlan& proto) {
  TrainingPlan plan;
  plan.version = proto.version();
  for (const v1::PlanLevel& level : proto.levels()) {
    plan.levels.push_back({level.period() > 0 ? level.period() : level.guarded_period(),
                           std::vector<int>(level.groups().begin(), level.groups().end()),
                           ReadWireFormat(level.format())});
    if (level.has_outer()) plan.levels.back().outer = ReadOuter(level.outer());
  }
  plan.gradient_groups.assign(proto.gradient_groups().begin(), proto.gradient_groups().end());
  if (proto.has_slipstream()) {
    plan.slipstream = ReadSlipstream(proto.version(), proto.slipstream());
  }
  return plan;
}

ProfileRequest ProfileRequestFromProto(const v1::ProfileRequest& proto) {
  return {proto.id(), proto.first_step(), proto.steps(), proto.memory()};
}

CheckpointPlan CheckpointPlanFromProto(const v1::CheckpointPlan& proto) {
  CheckpointPlan plan;
  plan.save = {proto.save().number(), proto.save().now()};
  for (int i = 0; i < proto.commit_steps_size(); ++i) {
    CheckpointPlan::Commit& commit = plan.commits.emplace_back();
    commit.step = proto.commit_steps(i);
    if (i < proto.commit_orders_size()) commit.order = proto.commit_orders(i);
  }
  for (const v1::SaveDirectory& named : proto.directories()) {
    plan.directories[named.order()] = named.directory();
  }
  return plan;
}

}  // namespace paceline
