#include "worker/trainer/config_from_proto.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

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
  } else if (spec.schedule().has_step()) {
    schedule.kind = LrSchedule::Kind::kStep;
    schedule.every = spec.schedule().step().every();
    schedule.gamma = spec.schedule().step().gamma();
  }
  return schedule;
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
    default:
      return FaultConfig::Kind::kThrow;
  }
}

absl::Status CheckPlace(const v1::TrainerConfig& proto) {
  if (proto.world_size() < 1 || proto.id().rank() < 0 || proto.id().rank() >= proto.world_size() ||
      proto.threads() < 1 || proto.place() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("impossible place: rank ", proto.id().rank(), " of ", proto.world_size(),
                     ", place ", proto.place(), ", ", proto.threads(), " threads"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainerConfig> ConfigFromProto(const v1::TrainerConfig& proto) {
  const absl::Status place = CheckPlace(proto);
  if (!place.ok()) return place;
  v1::JobSpec spec = proto.spec();
  FillDefaults(&spec);
  std::string problems;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    absl::StrAppend(&problems, problems.empty() ? "" : "; ", problem.field, " ", problem.message);
  }
  if (!problems.empty()) return absl::InvalidArgumentError(problems);

  TrainerConfig config;
  config.id.job = JobId(proto.id().job_id());
  config.id.generation = Generation(proto.id().generation());
  config.id.rank = Rank(proto.id().rank());
  config.world_size = proto.world_size();
  config.place = proto.place();
  config.threads = proto.threads();
  config.interface = proto.interface();
  config.cuda = spec.device() == v1::CUDA;
  config.bf16 = spec.precision() == v1::BF16;
  if (spec.model().has_mlp()) {
    config.model.kind = ModelConfig::Kind::kMlp;
    config.model.hidden.assign(spec.model().mlp().hidden().begin(),
                               spec.model().mlp().hidden().end());
  }
  config.train_data = spec.data().train();
  config.eval_data = spec.data().eval();
  config.shuffle = spec.data().order() != v1::SEQUENTIAL;
  config.batch = spec.batch_per_rank();
  config.steps = spec.steps();
  config.optimizer = ReadOptimizer(spec.optimizer());
  config.schedule = ReadSchedule(spec);
  config.seed = static_cast<uint64_t>(spec.seed());
  config.eval_every = spec.evaluation().every();
  config.checkpoint_directory = spec.checkpoint().directory();
  config.init_from = spec.init_from();
  config.log_every = spec.log_every();
  config.collective_timeout = absl::Seconds(spec.collective_timeout_s());
  for (const v1::Fault& fault : spec.faults()) {
    if (fault.rank() != proto.id().rank()) continue;
    config.faults.push_back(
        {ReadFaultKind(fault.kind()), fault.step(), absl::Seconds(fault.seconds())});
  }
  return config;
}

}  // namespace paceline
