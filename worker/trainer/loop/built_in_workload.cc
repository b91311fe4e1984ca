#include "worker/trainer/loop/built_in_workload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/core/model_flops.h"
#include "worker/trainer/data/open_dataset.h"
#include "worker/trainer/data/training_data.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/loop/pass_check.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/model/flop_counter.h"
#include "worker/trainer/slipstream/buffers.h"

namespace paceline {
namespace {

LocalStep::Counted CountedOf(const Batch& batch) {
  return {batch.samples, batch.tokens, batch.workload};
}

Batch OnDevice(Batch batch, c10::Device device) {
  if (device.is_cpu()) return batch;
  batch.inputs = batch.inputs.to(device);
  batch.targets = batch.targets.to(device);
  return batch;
}

// Number of batches in the member's share of the samples.
int64_t BatchesOf(const Member& member, int64_t samples) {
  const int64_t share = (samples - member.rank + member.world_size - 1) / member.world_size;
  return (share + member.batch - 1) / member.batch;
}

// Rounds the parameters to bfloat16, in place.
void RoundParameters(const ModelTensors& model) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& one : model.parameters()) {
    one.tensor.set_data(one.tensor.detach().to(at::kBFloat16));
  }
}

const char* NameOf(ModelConfig::Kind kind) {
  switch (kind) {
    case ModelConfig::Kind::kResNet18:
      return "resnet18";
    case ModelConfig::Kind::kMlp:
      return "mlp";
    case ModelConfig::Kind::kLlama:
      return "llama";
    case ModelConfig::Kind::kCompiled:
      return "compiled";
    case ModelConfig::Kind::kTorchScript:
      break;
  }
  return "torchscript";
}

}  // namespace

BuiltInWorkload::BuiltInWorkload(const TrainerConfig& config, Platform& platform)
    : config_(config), platform_(platform), opener_(config.data) {}

absl::Status BuiltInWorkload::Open(at::Device device) {
  if (config_.member.shards > 1 && config_.model.kind != ModelConfig::Kind::kLlama) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shards: ", config_.member.shards, ": a ", NameOf(config_.model.kind),
        " cannot be sharded; leave shards out, or train a llama or the model of a script"));
  }
  PACELINE_RETURN_IF_ERROR(OpenAllData());
  PACELINE_ASSIGN_OR_RETURN(model_,
                            MakeModel(config_.model, train_data_->format(), config_.seed, device));
  PACELINE_RETURN_IF_ERROR(CheckPasses(*model_, config_, train_data_->size()));
  if (config_.optimizer.compensated) RoundParameters(*model_);
  if (config_.member.shards > 1) Shard();
  optimizer_ = MakeOptimizer(config_.optimizer, TensorsOf(model().parameters()));
  learning_rate_ = MakeLearningRate(device);
  if (config_.updates_in_backward) {
    backward_updates_ = std::make_unique<BackwardUpdates>(model_->parameters(), *optimizer_);
  }
  // Those of a compiled model were counted when it was exported: most of it is one operator here.
  counts_flops_ = config_.count_flops && config_.flops_per_sample == 0 &&
                  model_->FlopsPerSample().total() == 0 &&
                  config_.model.kind != ModelConfig::Kind::kCompiled;
  return absl::OkStatus();
}

void BuiltInWorkload::Shard() {
  Sharding sharding;
  sharding.shards = config_.member.shards;
  // A spare may get any.
  sharding.position = config_.member.lanes().PositionOf(std::max(config_.member.rank, 0));
  // To this type autocast would cast them at each use.
  if (config_.bf16) sharding.block_type = at::kBFloat16;
  sharding.releases_blocks = config_.zero_stage == 3;
  sharded_ = std::make_unique<ShardedParameters>(*model_, sharding);
  if (sharding.releases_blocks) model_->SetGatheredBlocks(sharded_->Blocks());
}

absl::Status BuiltInWorkload::OpenAllData() {
  PACELINE_ASSIGN_OR_RETURN(train_data_, OpenTrainingData(opener_));
  mixture_ = MixtureOf(config_.data, *train_data_);
  const int64_t now = config_.member.batch * config_.member.world_size;
  // A job that may grow must not find out when it has.
  int64_t needed = now;
  for (const JobSize& size : config_.sizes) needed = std::max(needed, size.ranks * size.batch);
  if (train_data_->size() < needed) {
    const size_t others = config_.data.sources.empty() ? 0 : config_.data.sources.size() - 1;
    return absl::InvalidArgumentError(absl::StrCat(
        "data.train: ", train_data_->path(),
        others > 0 ? absl::StrCat(" and ", others, " more") : "", " has ", train_data_->size(),
        " samples, less than the ", needed, " of one batch of all ranks",
        needed > now ? ", as many as the job may have (ranks, recovery.max_ranks)" : ""));
  }
  if (config_.data.eval.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(eval_data_, opener_.Open("data.eval", config_.data.eval));
  const std::string train = FormatText(train_data_->format());
  const std::string eval = FormatText(eval_data_->format());
  if (train != eval) {
    return absl::InvalidArgumentError(absl::StrCat("data.eval: ", config_.data.eval, " holds ",
                                                   eval, ", and ", train_data_->path(), " ",
                                                   train));
  }
  return absl::OkStatus();
}

BatchLoader::Options BuiltInWorkload::LoaderOptions(const Member& member,
                                                    const DataPosition& start) const {
  BatchLoader::Options options;
  options.start = start;
  options.sampler = SamplingAs(member);
  options.threads = config_.data.prefetch_threads;
  options.batches_ahead = config_.data.prefetch_batches;
  options.device = model_->device();
  options.interrupt = &opener_.read_interrupt();
  return options;
}

absl::Status BuiltInWorkload::CheckSlipstream() {
  if (sharded_ == nullptr) return paceline::CheckSlipstream(*model_);
  return absl::InvalidArgumentError("the model is sharded, and Slipstream only knows whole models");
}

double BuiltInWorkload::LearningRate(int64_t step) const {
  return paceline::LearningRate(config_.schedule, step) *
         RankFactor(config_.schedule, data_as_.world_size);
}

void BuiltInWorkload::OpenData(const Member& member, const DataPosition& position) {
  if (loader_ != nullptr && data_as_ == member) return;
  if (loader_ == nullptr && config_.cuda_graph) graph_ = platform_.MakeStepGraph();
  data_as_ = member;
  // First the former one ends, which cuts off whatever is read meanwhile.
  loader_.reset();
  loader_ = std::make_unique<BatchLoader>(*train_data_, LoaderOptions(member, position));
}

int BuiltInWorkload::ActiveRanks(const Member& member) const {
  return static_cast<int>(std::min<int64_t>(loader_->together(), member.world_size));
}

void BuiltInWorkload::CloseData() {
  loader_.reset();
  graph_.reset();
  graph_batches_.clear();
  if (sharded_ != nullptr) sharded_->SetGradientGroup(nullptr);
}

bool BuiltInWorkload::SetShardGroups(const ShardGroups* groups) {
  if (groups == nullptr) {
    sharded_->SetReplica(nullptr);
    return true;
  }
  sharded_->SetReplica(groups->replica.get());
  const int position = config_.member.lanes().PositionOf(groups->lane->ranks().front());
  if (position == sharded_->position()) return true;
  const at::NoGradGuard no_grad;
  sharded_->SetPosition(position);
  for (const OptimizerSlot& slot : optimizer_->Slots()) {
    for (size_t i = 0; i < slot.tensors.size(); ++i) {
      const at::Tensor rows = sharded_->parameters()[i].tensor.detach();
      slot.tensors[i].set_data(at::zeros_like(rows));
    }
  }
  return false;
}

absl::Status BuiltInWorkload::FinishUpdate(const at::Tensor& skip) {
  optimizer_->Step(learning_rate_, skip);
  return absl::OkStatus();
}

std::shared_ptr<const ModelTensors> BuiltInWorkload::ModelToExport() {
  if (sharded_ == nullptr) return Workload::ModelToExport();
  return sharded_->CopyWhole();
}

absl::StatusOr<std::vector<int64_t>> BuiltInWorkload::TrainDry(const Member& member,
                                                               const DataPosition& position) {
  // Without other ranks there are no whole parameters; gradients have one order anyway.
  if (sharded_ != nullptr) return std::vector<int64_t>();
  Member as = member;
  as.rank = std::max(as.rank, 0);
  BatchLoader::Options options = LoaderOptions(as, position);
  options.threads = 0;
  BatchLoader loader(*train_data_, options);
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader.Next());
  StepUndo undo(*model_);
  undo.Keep();
  GradientOrder order(model_->parameters());
  {
    // There are no other ranks to normalise with.
    model_->SetTraining(!config_.model.sync_batchnorm);
    const absl::Cleanup trains_again = [this] { model_->SetTraining(true); };
    PACELINE_ASSIGN_OR_RETURN(const at::Tensor loss, LossOrZero(batch));
    loss.backward();
  }
  undo.Undo();
  return order.Completed(order.Take());
}

absl::Status BuiltInWorkload::MakeStep(const StepOrder& order, LocalStep& step) {
  learning_rate_.fill_(order.learning_rate);
  if (graph_ != nullptr) return Replay(step);
  const bool counts =
      counts_flops_ && SamplesOfStep() == data_as_.samples_per_step() * data_as_.world_size;
  PACELINE_RETURN_IF_ERROR(counts ? CountPasses(step) : RunPasses(step));
  if (backward_updates_ != nullptr) {
    step.AfterBackwardUpdates(backward_updates_->End());
    return absl::OkStatus();
  }
  const at::Tensor skip = step.BeforeUpdate();
  if (order.updates) optimizer_->Step(learning_rate_, skip);
  return absl::OkStatus();
}

absl::Status BuiltInWorkload::CountPasses(LocalStep& step) {
  FlopCounter counter;
  PACELINE_RETURN_IF_ERROR(RunPasses(step, &counter));
  counts_flops_ = false;
  const Flops flops = counter.flops();
  if (!counter.unknown().empty() || flops.total() == 0) {
    PACELINE_LOG(WARNING) << "the model's FLOPs are not counted: "
                          << (counter.unknown().empty()
                                  ? "it has no matrix products, convolutions or attention"
                                  : absl::StrCat("the shapes of ", counter.unknown(),
                                                 " do not say what it does"))
                          << "; give flops_per_sample in the job file";
    return absl::OkStatus();
  }
  const int64_t samples = data_as_.samples_per_step();
  model_->SetCountedFlops(flops * (1.0 / static_cast<double>(samples)));
  PACELINE_LOG(INFO) << "counted flops_per_sample=" << model_->counted_flops().total()
                     << " in a step of " << samples << " samples";
  return absl::OkStatus();
}

int64_t BuiltInWorkload::SamplesOfStep() const {
  Sampler sampler(SamplingAs(data_as_), loader_->position());
  int64_t samples = 0;
  for (int64_t pass = 0; pass < data_as_.accumulation_steps; ++pass) {
    samples += sampler.Skip().samples;
  }
  return samples;
}

absl::Status BuiltInWorkload::RunPasses(LocalStep& step, FlopCounter* counter) {
  // Each pass of each rank is one part of a step, whose gradient is the mean over the parts. They
  // may differ in size only if all ranks share gradients.
  const int64_t parts = data_as_.accumulation_steps * data_as_.world_size;
  const int64_t samples = SamplesOfStep();
  for (int64_t pass = 0; pass < data_as_.accumulation_steps; ++pass) {
    step.BeginPass();
    PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_->Next());
    // On all ranks alike, before they wait for each other. It has not been checked at the start if
    // the number of ranks has changed in the middle of the epoch.
    if (loader_->together() < data_as_.batch * data_as_.world_size) {
      PACELINE_RETURN_IF_ERROR(
          CheckLastPass(*model_, loader_->together(), train_data_->size(), data_as_.world_size));
    }
    step.BeginForward(CountedOf(batch));
    if (sharded_ != nullptr) {
      if (pass == 0) GatherParameters(step);
      sharded_->BeginPass(pass + 1 == data_as_.accumulation_steps);
    }
    if (counter != nullptr) counter->BeginForward();
    PACELINE_ASSIGN_OR_RETURN(at::Tensor loss, LossOrZero(batch));
    if (batch.samples * parts != samples) {
      loss = loss.mul(static_cast<double>(batch.samples * parts) / static_cast<double>(samples));
    }
    if (counter != nullptr) counter->BeginBackward();
    if (backward_updates_ != nullptr) {
      step.BeforeBackwardUpdates();
      backward_updates_->Begin(learning_rate_);
    }
    step.Backward(std::move(loss));
  }
  return absl::OkStatus();
}

// Within the step: its beginning may have changed this rank's rows.
void BuiltInWorkload::GatherParameters(LocalStep& step) {
  step.ShowWait(true);
  sharded_->Gather();
  step.ShowWait(false);
}

absl::StatusOr<LocalStep::Counted> BuiltInWorkload::FillGraphBatches(LocalStep& step) {
  graph_batches_.resize(data_as_.accumulation_steps);
  LocalStep::Counted all;
  for (Batch& own : graph_batches_) {
    step.BeginPass();
    PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_->Next());
    if (!own.inputs.defined()) {
      own = batch;
      own.inputs = at::empty_like(batch.inputs);
      own.targets = at::empty_like(batch.targets);
    }
    own.inputs.copy_(batch.inputs, /*non_blocking=*/true);
    own.targets.copy_(batch.targets, /*non_blocking=*/true);
    const LocalStep::Counted counted = CountedOf(batch);
    all.samples += counted.samples;
    all.tokens += counted.tokens;
    all.workload += counted.workload;
  }
  return all;
}

absl::Status BuiltInWorkload::Replay(LocalStep& step) {
  PACELINE_ASSIGN_OR_RETURN(const LocalStep::Counted counted, FillGraphBatches(step));
  if (!graph_loss_.defined()) {
    const auto floats = at::dtype(at::kFloat).device(model_->device());
    const auto parameters = static_cast<int64_t>(model_->parameters().size());
    graph_loss_ = at::empty({}, floats);
    graph_norms_.total = at::empty({}, floats);
    graph_norms_.each = at::empty({parameters}, floats);
  }
  step.BeginReplay(counted);
  graph_->Run([&] {
    graph_loss_.zero_();
    for (const Batch& batch : graph_batches_) {
      at::Tensor loss = Loss(batch);
      if (graph_batches_.size() > 1) {
        loss = loss.mul(1.0 / static_cast<double>(graph_batches_.size()));
      }
      loss.backward();
      graph_loss_.add_(loss.detach());
    }
    step.CheckGradients();
    const GradientNorms norms = step.ClipToLimit();
    optimizer_->Step(learning_rate_, step.SkipFor(norms));
    graph_norms_.total.copy_(norms.total);
    graph_norms_.each.copy_(norms.each);
  });
  // Copies of the results: the graph overwrites them in the next step.
  step.EndReplay(graph_loss_.clone(), {graph_norms_.each.clone(), graph_norms_.total.clone()});
  return absl::OkStatus();
}

at::Tensor BuiltInWorkload::Loss(const Batch& batch) {
  const Autocast autocast(config_.bf16, model_->device().type());
  return model_->Loss(batch);
}

absl::StatusOr<at::Tensor> BuiltInWorkload::LossOrZero(const Batch& batch) {
  if (batch.samples > 0) return Loss(batch);
  const std::vector<int64_t> any = {0};
  Batch one = train_data_->Allocate(1, /*pinned=*/false);
  PACELINE_RETURN_IF_ERROR(train_data_->Read(any, &one));
  // As in an evaluation, so that no buffer changes.
  model_->SetTraining(false);
  const absl::Cleanup trains_again = [this] { model_->SetTraining(true); };
  return Loss(OnDevice(std::move(one), model_->device())).mul(0.0);
}

absl::Status BuiltInWorkload::Evaluate(const StepOrder& order, JobEvaluation& evaluation) {
  const at::NoGradGuard no_grad;
  if (sharded_ != nullptr) sharded_->Gather();
  int64_t samples = 0;
  absl::StatusOr<Score> score;
  {
    model_->SetTraining(false);
    const absl::Cleanup trains_again = [this] { model_->SetTraining(true); };
    score = ScoreShare(order.member, evaluation, &samples);
  }
  PACELINE_RETURN_IF_ERROR(score.status());
  evaluation.End(*score, samples);
  return absl::OkStatus();
}

absl::StatusOr<Score> BuiltInWorkload::ScoreShare(const Member& member, JobEvaluation& evaluation,
                                                  int64_t* samples) {
  const Dataset& data = *eval_data_;
  const int64_t all = BatchesOf(member, data.size());
  int64_t done = 0;
  Score sum;
  Batch buffer = data.Allocate(member.batch, /*pinned=*/false);
  std::vector<int64_t> indices;
  for (int64_t next = member.rank; next < data.size();) {
    evaluation.ShowProgress(done++, all);
    indices.clear();
    for (; next < data.size() && static_cast<int64_t>(indices.size()) < member.batch;
         next += member.world_size) {
      indices.push_back(next);
    }
    PACELINE_ASSIGN_OR_RETURN(const Score score, ScoreBatch(indices, buffer));
    sum.loss += score.loss;
    sum.correct += score.correct;
    sum.predictions += score.predictions;
    *samples += static_cast<int64_t>(indices.size());
  }
  evaluation.ShowProgress(done, all);
  if (config_.zero_stage == 3) {
    // Those of a replica gather each block together, so that all need as many batches.
    Member first = member;
    first.rank = 0;
    for (; sharded_ != nullptr && done < BatchesOf(first, data.size()); ++done) {
      PACELINE_RETURN_IF_ERROR(ScoreBatch({0}, buffer).status());
    }
  }
  return sum;
}

absl::StatusOr<Score> BuiltInWorkload::ScoreBatch(const std::vector<int64_t>& indices,
                                                  Batch batch) {
  PACELINE_RETURN_IF_ERROR(eval_data_->Read(indices, &batch));
  const Autocast autocast(config_.bf16, model_->device().type());
  return model_->Evaluate(OnDevice(std::move(batch), model_->device()));
}

}  // namespace paceline
