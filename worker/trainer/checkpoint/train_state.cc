#include "worker/trainer/checkpoint/train_state.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/own_name.h"

namespace paceline {
namespace {

constexpr char kStep[] = "optimizer/step";
constexpr char kOrder[] = "averager/gradient_order";

constexpr Attachments::Scope kScopes[] = {Attachments::Scope::kShared, Attachments::Scope::kOwn};

std::string NameOf(Attachments::Scope scope, absl::string_view part) {
  return absl::StrCat("attached/", scope == Attachments::Scope::kShared ? "shared" : "own", "/",
                      part);
}

std::string RandomName(at::Device device) {
  return absl::StrCat("rng/", device.is_cuda() ? "cuda" : "cpu");
}

at::Generator GeneratorOf(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

at::Tensor RandomState(at::Device device) {
  at::Generator generator = GeneratorOf(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetRandomState(at::Device device, const at::Tensor& state) {
  at::Generator generator = GeneratorOf(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The replica and the rank of a checkpoint whose own tensors this rank takes.
struct Source {
  int64_t replica = 0;
  int64_t rank = 0;
};

Source SourceOf(const Manifest& manifest, const TrainerConfig& config) {
  const Lanes now = config.member.lanes();
  const Lanes saved{manifest.shards};
  const int64_t rank = config.rank();
  const int64_t ranks = config.member.world_size;
  const int64_t replica = now.ReplicaOf(config.rank());
  const int64_t replicas = std::max(1, now.ReplicasIn(config.member.world_size));
  Source source;
  source.replica = replica * saved.ReplicasIn(manifest.ranks) / replicas;
  source.rank = now.shards == saved.shards
                    ? source.replica * saved.shards + now.PositionOf(config.rank())
                    : rank * manifest.ranks / ranks;
  return source;
}

// The name of this rank's tensor in the checkpoint. A tensor that all ranks now share but each had
// for itself is taken from rank 0.
std::string StoredName(const StateReader& reader, const TrainerConfig& config,
                       const StateTensor& one) {
  const Source source = SourceOf(reader.manifest(), config);
  const absl::string_view replica = reader.manifest().shards > 1 ? kReplica : kRank;
  std::vector<std::string> names;
  if (one.own) {
    names.push_back(OwnName(one.name, source.rank));
    names.push_back(OwnName(one.name, source.replica, replica));
    if (one.slice.has_value()) std::swap(names[0], names[1]);
  }
  names.push_back(one.name);
  // It was saved when every parameter had to be used.
  if (absl::StartsWith(one.name, kStep)) {
    if (one.own) names.push_back(OwnName(kStep, source.rank));
    names.push_back(kStep);
  }
  for (const std::string& name : names) {
    if (reader.files().Find(name) != nullptr) return name;
  }
  return one.name;
}

// The slices that an attachment's tensors are, one for each.
std::vector<std::optional<Slice>> SlicesOf(const Attachments& attachments, Attachments::Scope scope,
                                           const Attachment& attachment) {
  std::vector<std::optional<Slice>> slices = attachments.Slices(scope, attachment.schema);
  TORCH_CHECK_VALUE(slices.empty() || slices.size() == attachment.tensors.size(),
                    "what is attached has ", attachment.tensors.size(), " tensors and ",
                    slices.size(), " slices");
  slices.resize(attachment.tensors.size());
  return slices;
}

// Whether a tensor that is attached belongs to its position: all that is known of it is that it is
// no slice, though the model is sharded.
bool IsOfPosition(const at::Tensor& tensor, const std::optional<Slice>& slice, int shards) {
  return shards > 1 && !slice.has_value() && tensor.dim() > 0;
}

// `own`: whether the tensors of the scope are.
void Append(const Attachments& attachments, Attachments::Scope scope, const Member& member,
            bool own, std::vector<StateTensor>* state) {
  const Attachment attachment = attachments.Take(scope);
  const std::vector<std::optional<Slice>> slices = SlicesOf(attachments, scope, attachment);
  const at::Tensor schema = at::empty({static_cast<int64_t>(attachment.schema.size())}, at::kByte);
  std::memcpy(schema.mutable_data_ptr(), attachment.schema.data(), attachment.schema.size());
  state->push_back({NameOf(scope, "schema"), schema, member.world_size > 1, /*at_once=*/true});
  for (size_t i = 0; i < attachment.tensors.size(); ++i) {
    const at::Tensor& tensor = attachment.tensors[i];
    state->push_back({NameOf(scope, absl::StrCat(i)), tensor.detach(),
                      own || IsOfPosition(tensor, slices[i], member.shards),
                      /*at_once=*/scope == Attachments::Scope::kOwn, /*again=*/false, slices[i]});
  }
}

// Refuses a tensor that each rank saved for its position, when there are other positions now.
absl::Status CheckPosition(const StateReader& reader, const TrainerConfig& config,
                           const StateTensor& one) {
  const int saved = reader.manifest().shards;
  const int now = config.member.shards;
  if (saved == 1 || saved == now || one.slice.has_value() || one.tensor.dim() == 0) {
    return absl::OkStatus();
  }
  if (reader.files().Find(OwnName(one.name, 1)) == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(one.name, " is no DTensor, so each of ", saved,
                                                 " shards has its own, which fits no other "
                                                 "number of shards, and the job has ",
                                                 now, ": resume it with shards: ", saved));
}

absl::Status Restore(StateReader& reader, const TrainerConfig& config, Attachments::Scope scope,
                     Attachments& attachments) {
  const int shards = config.member.shards;
  const bool shared = scope == Attachments::Scope::kShared;
  const bool own = config.member.world_size > 1 &&
                   !(config.strategy.kind == StrategyConfig::Kind::kDdp && shared);
  const StateTensor schema{NameOf(scope, "schema"), at::Tensor(), own || shards > 1};
  const std::string name = StoredName(reader, config, schema);
  const ManifestTensor* const stored = reader.files().Find(name);
  if (stored == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is missing: it was not saved by a script's session"));
  }
  const at::Tensor text = at::empty(stored->shape, at::kByte);
  PACELINE_RETURN_IF_ERROR(reader.Read({{name, text}}));
  Attachment attachment;
  attachment.schema.assign(static_cast<const char*>(text.const_data_ptr()), text.nbytes());
  attachment.tensors = attachments.Allocate(scope, attachment.schema);
  const std::vector<std::optional<Slice>> slices = SlicesOf(attachments, scope, attachment);
  std::vector<ReadTarget> targets;
  for (size_t i = 0; i < attachment.tensors.size(); ++i) {
    StateTensor one{NameOf(scope, absl::StrCat(i)), attachment.tensors[i]};
    one.own = own || IsOfPosition(one.tensor, slices[i], shards);
    one.slice = slices[i];
    if (shared) PACELINE_RETURN_IF_ERROR(CheckPosition(reader, config, one));
    targets.push_back({StoredName(reader, config, one), one.tensor, one.slice});
  }
  PACELINE_RETURN_IF_ERROR(reader.Read(targets));
  attachments.Put(scope, attachment);
  return absl::OkStatus();
}

// Whether the optimizer's state is equal on all ranks.
bool HasOneOptimizer(const TrainerConfig& config, bool one_optimizer) {
  return one_optimizer || config.strategy.kind == StrategyConfig::Kind::kDdp;
}

void AppendOptimizer(const TrainerConfig& config, const ModelTensors& model,
                     const Optimizer& optimizer, bool one, std::vector<StateTensor>* state) {
  const bool several = config.member.world_size > 1;
  const StrategyConfig& strategy = config.strategy;
  // Slipstream's plan decides this for its jobs.
  const bool averaged =
      strategy.average_optimizer_state && strategy.kind != StrategyConfig::Kind::kSlipstream;
  const bool own_slots = several && !one && !averaged;
  for (const OptimizerSlot& slot : optimizer.Slots()) {
    for (size_t i = 0; i < slot.tensors.size(); ++i) {
      const NamedTensor& parameter = model.parameters()[i];
      StateTensor kept{absl::StrCat("optimizer/", slot.name, "/", parameter.name), slot.tensors[i],
                       own_slots && !slot.of_weights};
      if (kept.tensor.sizes() == parameter.tensor.sizes()) kept.slice = parameter.slice;
      state->push_back(std::move(kept));
    }
  }
  const std::vector<at::Tensor> counts = optimizer.StepCounts();
  for (size_t i = 0; i < counts.size(); ++i) {
    // Equal for all parameters, unless some had no gradient at times.
    const bool each = config.model.unused_parameters;
    if (!each && i > 0) break;
    state->push_back({each ? absl::StrCat(kStep, "/", model.parameters()[i].name) : kStep,
                      counts[i], several && !one});
  }
}

// Refuses a checkpoint of weights with a compensation where the job's have none, or the other way
// round: what its parameters lack would be lost without a word.
absl::Status CheckCompensation(const StateReader& reader, const Optimizer& optimizer) {
  const std::string prefix = absl::StrCat("optimizer/", kCompensation, "/");
  const auto& tensors = reader.manifest().tensors;
  const bool saved = std::any_of(tensors.begin(), tensors.end(), [&](const ManifestTensor& one) {
    return absl::StartsWith(one.name, prefix);
  });
  if (saved == !CompensationOf(optimizer).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      saved ? "it was saved with precision bf16_full, which the job does not have"
            : "it was saved with another precision than the job's, which is bf16_full",
      ": resume it with the precision that it has, or give it as init_from, which takes the "
      "weights alone"));
}

// All but what is attached. `optimizer`: null where that is attached.
std::vector<StateTensor> Collect(const TrainerConfig& config, const ModelTensors& model,
                                 const Optimizer* optimizer, bool one_optimizer) {
  const bool several = config.member.world_size > 1;
  std::vector<StateTensor> state;
  for (const NamedTensor& parameter : model.parameters()) {
    state.push_back({absl::StrCat("model/", parameter.name), parameter.tensor.detach(),
                     /*own=*/false, /*at_once=*/false, /*again=*/false, parameter.slice});
  }
  if (optimizer != nullptr) AppendOptimizer(config, model, *optimizer, one_optimizer, &state);
  for (const NamedTensor& buffer : model.buffers()) {
    state.push_back({absl::StrCat("model/", buffer.name), buffer.tensor.detach(),
                     several && !buffer.frozen, /*at_once=*/!buffer.frozen, /*again=*/false,
                     buffer.slice});
  }
  for (const TiedName& tied : model.tied()) {
    const std::string first = absl::StrCat("model/", tied.first);
    StateTensor again = *std::find_if(state.begin(), state.end(),
                                      [&](const StateTensor& one) { return one.name == first; });
    again.name = absl::StrCat("model/", tied.name);
    again.again = true;
    state.push_back(std::move(again));
  }
  state.push_back({RandomName(at::kCPU), RandomState(at::kCPU), several, /*at_once=*/true});
  if (model.device().is_cuda()) {
    state.push_back({RandomName(model.device()), RandomState(model.device()), several,
                     /*at_once=*/true});
  }
  return state;
}

}  // namespace

RandomNumbers::RandomNumbers(at::Device device)
    : device_(device),
      cpu_(RandomState(at::kCPU)),
      device_state_(device.is_cpu() ? at::Tensor() : RandomState(device)) {}

void RandomNumbers::Restore() const {
  SetRandomState(at::kCPU, cpu_);
  if (device_state_.defined()) SetRandomState(device_, device_state_);
}

std::vector<at::Tensor> RandomNumbers::tensors() const {
  std::vector<at::Tensor> tensors{cpu_};
  if (device_state_.defined()) tensors.push_back(device_state_);
  return tensors;
}

std::vector<StateTensor> CollectState(const TrainerConfig& config, const ModelTensors& model,
                                      const Optimizer& optimizer, const Attachments* attachments,
                                      bool one_optimizer) {
  const bool several = config.member.world_size > 1;
  const bool one = HasOneOptimizer(config, one_optimizer);
  std::vector<StateTensor> state =
      Collect(config, model, attachments == nullptr ? &optimizer : nullptr, one);
  if (attachments == nullptr) return state;
  for (const Attachments::Scope scope : kScopes) {
    const bool own = several && !(one && scope == Attachments::Scope::kShared);
    Append(*attachments, scope, config.member, own, &state);
  }
  return state;
}

void ReplaceParameters(const std::vector<NamedTensor>& parameters,
                       const std::vector<at::Tensor>& common, std::vector<StateTensor>* state) {
  for (size_t i = 0; i < common.size(); ++i) {
    const void* const parameter = parameters[i].tensor.const_data_ptr();
    for (StateTensor& one : *state) {
      const bool is_of_model = absl::StartsWith(one.name, "model/");
      if (is_of_model && one.tensor.const_data_ptr() == parameter) one.tensor = common[i];
    }
  }
}

absl::Status RestoreState(StateReader& reader, const TrainerConfig& config,
                          const ModelTensors& model, const Optimizer& optimizer,
                          Attachments* attachments) {
  const at::NoGradGuard no_grad;
  if (attachments == nullptr) PACELINE_RETURN_IF_ERROR(CheckCompensation(reader, optimizer));
  std::vector<StateTensor> state = Collect(
      config, model, attachments == nullptr ? &optimizer : nullptr, HasOneOptimizer(config, false));
  state.erase(
      std::remove_if(state.begin(), state.end(), [](const StateTensor& one) { return one.again; }),
      state.end());
  std::vector<ReadTarget> targets;
  for (const StateTensor& one : state) {
    targets.push_back({StoredName(reader, config, one), one.tensor.contiguous(), one.slice});
  }
  PACELINE_RETURN_IF_ERROR(reader.Read(targets));
  for (size_t i = 0; i < state.size(); ++i) {
    if (!state[i].tensor.is_contiguous()) state[i].tensor.copy_(targets[i].tensor);
  }
  for (const StateTensor& one : state) {
    if (one.name == RandomName(at::kCPU)) SetRandomState(at::kCPU, one.tensor);
    if (one.name == RandomName(at::kCUDA)) SetRandomState(model.device(), one.tensor);
  }
  if (attachments != nullptr) {
    for (const Attachments::Scope scope : kScopes) {
      PACELINE_RETURN_IF_ERROR(Restore(reader, config, scope, *attachments));
    }
    return absl::OkStatus();
  }
  if (config.model.unused_parameters) return absl::OkStatus();
  const std::vector<at::Tensor> counts = optimizer.StepCounts();
  for (const at::Tensor& count : counts) count.copy_(counts.front());
  return absl::OkStatus();
}

StateTensor OrderTensor(const std::vector<int64_t>& order) {
  return {kOrder, at::tensor(order, at::kLong)};
}

absl::StatusOr<std::vector<int64_t>> RestoreOrder(StateReader& reader, size_t parameters) {
  std::vector<int64_t> order(parameters);
  const std::vector<int64_t> shape{static_cast<int64_t>(parameters)};
  const ManifestTensor* const stored = reader.files().Find(kOrder);
  if (stored == nullptr || stored->shape != shape) return std::vector<int64_t>();
  const at::Tensor read = at::empty(shape, at::kLong);
  PACELINE_RETURN_IF_ERROR(reader.Read({{kOrder, read}}));
  std::copy_n(read.const_data_ptr<int64_t>(), order.size(), order.begin());
  return order;
}

absl::Status RestoreError(const std::string& directory, const absl::Status& status) {
  const bool named = absl::StrContains(status.message(), directory);
  const std::string message = absl::StrCat("cannot go on from the checkpoint", named ? "" : " ",
                                           named ? "" : directory, ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInvalidArgument:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status RestoreStrategyState(StateReader& reader, const TrainerConfig& config,
                                  const std::string& ladder,
                                  const std::vector<NamedTensor>& state) {
  const Manifest& manifest = reader.manifest();
  if (manifest.ranks != config.member.world_size || manifest.shards != config.member.shards ||
      manifest.ladder != ladder) {
    return absl::OkStatus();
  }
  std::vector<ReadTarget> targets;
  std::vector<at::Tensor> kept;  // Of each target.
  for (const NamedTensor& one : state) {
    const std::string name = OwnName(one.name, config.rank());
    const ManifestTensor* const stored = reader.files().Find(name);
    // Of another arrangement of as many positions it has another size.
    if (stored != nullptr && stored->shape == one.tensor.sizes().vec()) {
      targets.push_back({name, one.tensor.contiguous()});
      kept.push_back(one.tensor);
    }
  }
  PACELINE_RETURN_IF_ERROR(reader.Read(targets));
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].is_contiguous()) kept[i].copy_(targets[i].tensor);
  }
  return absl::OkStatus();
}

absl::Status RestoreMomentum(StateReader& reader, const std::vector<NamedTensor>& momentum) {
  std::vector<ReadTarget> targets;
  for (const NamedTensor& one : momentum) {
    if (reader.files().Find(one.name) == nullptr) continue;
    targets.push_back({one.name, one.tensor, one.slice});
  }
  return reader.Read(targets);
}

}  // namespace paceline
