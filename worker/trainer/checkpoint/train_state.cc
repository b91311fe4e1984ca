#include "worker/trainer/checkpoint/train_state.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/trainer/core/state_partition.h"

namespace paceline {
namespace {

constexpr char kStep[] = "optimizer/step";
constexpr char kOrder[] = "averager/gradient_order";

constexpr Attachments::Scope kScopes[] = {Attachments::Scope::kShared, Attachments::Scope::kOwn};

std::string NameOf(Attachments::Scope scope, absl::string_view part) {
  return absl::StrCat("attached/", scope == Attachments::Scope::kShared ? "shared" : "own", "/",
                      part);
}

std::string NameOf(const std::string& name, int rank) {
  return rank == 0 ? name : absl::StrCat("rank", rank, "/", name);
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

// A tensor without dimensions counts as one row.
RowLayout LayoutOf(const at::Tensor& tensor) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  return {rows, rows == 0 ? 0 : tensor.numel() * tensor.element_size() / rows};
}

ShardEntry EntryOf(std::string name, const at::Tensor& tensor, const RowRange& range) {
  ShardEntry entry;
  entry.name = std::move(name);
  entry.shape = tensor.sizes().vec();
  entry.first_row = range.first_row;
  // Copies a tensor with another memory layout, which a user's module may have.
  entry.rows =
      (tensor.dim() == 0 ? tensor : tensor.narrow(0, range.first_row, range.rows)).contiguous();
  return entry;
}

// The name of this rank's tensor in the checkpoint. A tensor that all ranks now share but each had
// for itself is taken from rank 0.
std::string StoredName(const StateReader& reader, const TrainerConfig& config,
                       const StateTensor& one) {
  const int64_t saved = reader.manifest().ranks;
  const auto source = static_cast<int>(config.rank() * saved / config.member.world_size);
  std::vector<std::string> names;
  if (one.own) names.push_back(NameOf(one.name, source));
  names.push_back(one.name);
  // It was saved when every parameter had to be used.
  if (absl::StartsWith(one.name, kStep)) {
    if (one.own) names.push_back(NameOf(kStep, source));
    names.push_back(kStep);
  }
  for (const std::string& name : names) {
    if (reader.files().Find(name) != nullptr) return name;
  }
  return one.name;
}

// `own`: whether the tensors of the scope are.
void Append(const Attachment& attachment, Attachments::Scope scope, bool several, bool own,
            std::vector<StateTensor>* state) {
  const at::Tensor schema = at::empty({static_cast<int64_t>(attachment.schema.size())}, at::kByte);
  std::memcpy(schema.mutable_data_ptr(), attachment.schema.data(), attachment.schema.size());
  state->push_back({NameOf(scope, "schema"), schema, several, /*at_once=*/true});
  for (size_t i = 0; i < attachment.tensors.size(); ++i) {
    state->push_back({NameOf(scope, absl::StrCat(i)), attachment.tensors[i].detach(), own,
                      /*at_once=*/scope == Attachments::Scope::kOwn});
  }
}

absl::Status Restore(StateReader& reader, const TrainerConfig& config, Attachments::Scope scope,
                     Attachments& attachments) {
  const bool several = config.member.world_size > 1;
  const bool one = config.strategy.kind == StrategyConfig::Kind::kDdp;
  const StateTensor schema{NameOf(scope, "schema"), at::Tensor(),
                           several && !(one && scope == Attachments::Scope::kShared)};
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
  std::vector<ReadTarget> targets;
  for (size_t i = 0; i < attachment.tensors.size(); ++i) {
    const StateTensor tensor{NameOf(scope, absl::StrCat(i)), at::Tensor(), schema.own};
    targets.push_back({StoredName(reader, config, tensor), attachment.tensors[i]});
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
      state->push_back({absl::StrCat("optimizer/", slot.name, "/", model.parameters()[i].name),
                        slot.tensors[i], own_slots});
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

// All but what is attached. `optimizer`: null where that is attached.
std::vector<StateTensor> Collect(const TrainerConfig& config, const ModelTensors& model,
                                 const Optimizer* optimizer, bool one_optimizer) {
  const bool several = config.member.world_size > 1;
  std::vector<StateTensor> state;
  for (const NamedTensor& parameter : model.parameters()) {
    state.push_back({absl::StrCat("model/", parameter.name), parameter.tensor.detach()});
  }
  if (optimizer != nullptr) AppendOptimizer(config, model, *optimizer, one_optimizer, &state);
  for (const NamedTensor& buffer : model.buffers()) {
    state.push_back({absl::StrCat("model/", buffer.name), buffer.tensor.detach(),
                     several && !buffer.frozen, /*at_once=*/!buffer.frozen});
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
    Append(attachments->Take(scope), scope, several, own, &state);
  }
  return state;
}

int64_t StatePart::bytes() const {
  int64_t bytes = 0;
  for (const auto* list : {&entries, &at_once}) {
    for (const ShardEntry& entry : *list) bytes += static_cast<int64_t>(entry.rows.nbytes());
  }
  return bytes;
}

StatePart PartOfRank(const std::vector<StateTensor>& state, int rank, int ranks) {
  StatePart part;
  const auto list = [&](const StateTensor& one) -> std::vector<ShardEntry>& {
    return one.at_once ? part.at_once : part.entries;
  };
  std::vector<const StateTensor*> shared;
  std::vector<RowLayout> layouts;
  for (const StateTensor& one : state) {
    if (one.own) {
      const RowRange all{0, 0, LayoutOf(one.tensor).rows};
      list(one).push_back(EntryOf(NameOf(one.name, rank), one.tensor, all));
    } else {
      shared.push_back(&one);
      layouts.push_back(LayoutOf(one.tensor));
    }
  }
  for (const RowRange& range : PartOfRank(layouts, rank, ranks)) {
    const StateTensor& one = *shared[range.tensor];
    list(one).push_back(EntryOf(one.name, one.tensor, range));
  }
  return part;
}

absl::Status RestoreState(StateReader& reader, const TrainerConfig& config,
                          const ModelTensors& model, const Optimizer& optimizer,
                          Attachments* attachments) {
  const at::NoGradGuard no_grad;
  std::vector<StateTensor> state = Collect(
      config, model, attachments == nullptr ? &optimizer : nullptr, HasOneOptimizer(config, false));
  state.erase(
      std::remove_if(state.begin(), state.end(), [](const StateTensor& one) { return one.again; }),
      state.end());
  std::vector<ReadTarget> targets;
  for (const StateTensor& one : state) {
    targets.push_back({StoredName(reader, config, one), one.tensor.contiguous()});
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
  if (manifest.ranks != config.member.world_size || manifest.ladder != ladder)
    return absl::OkStatus();
  std::vector<ReadTarget> targets;
  for (const NamedTensor& one : state) {
    const std::string name = NameOf(one.name, config.rank());
    if (reader.files().Find(name) != nullptr) targets.push_back({name, one.tensor});
  }
  return reader.Read(targets);
}

}  // namespace paceline
