#include "worker/trainer/comm/gradient_mean.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

#include "worker/trainer/loop/gradients.h"

namespace paceline {
namespace {

// Torch's defaults: a small first bucket lets the reduction begin early.
constexpr int64_t kFirstBucketBytes = 1 << 20;
constexpr int64_t kBucketBytes = 25 << 20;

using GroupHolder = std::shared_ptr<c10::intrusive_ptr<c10d::ProcessGroup>>;

// Sends a bucket in a shorter format. Divides before summing, so that fp16 does not overflow.
// Torch's own fp16 hook would keep using its first group.
class CompressHook : public c10d::CppCommHookInterface<GroupHolder> {
 public:
  CompressHook(GroupHolder group, at::ScalarType type)
      : CppCommHookInterface(std::move(group)), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    c10d::ProcessGroup& group = **state_;
    at::Tensor buffer = bucket.getBufferRef();
    std::vector<at::Tensor> sent{buffer.to(type_).div_(group.getSize())};
    const auto decompress = [buffer](c10::ivalue::Future& done) {
      at::Tensor result = buffer;
      result.copy_(done.value().toTensorVector()[0]);
      return c10::IValue(result);
    };
    return group.allreduce(sent)->getFuture()->then(decompress, c10::TensorType::get());
  }

 private:
  const at::ScalarType type_;
};

// Averages a bucket as soon as it is full, in the thread of the backward pass: of several at once
// the ranks would exchange parts in different orders. An error comes out where the Reducer waits
// for the bucket, as those of other hooks do.
class QuantizeHook : public c10d::CppCommHookInterface<QuantizedGradients*> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor buffer = bucket.getBufferRef();
    std::vector<c10::Device> devices;
    if (!buffer.is_cpu()) devices.push_back(buffer.device());
    auto done =
        c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
    try {
      state_->Average(buffer, bucket.getParameters());
      done->markCompleted(c10::IValue(buffer));
    } catch (const std::exception&) {
      done->setError(std::current_exception());
    }
    return done;
  }
};

}  // namespace

struct GradientMean::Parts {
  Parts(std::vector<NamedTensor> parameters_in, WireFormat format_in, bool unused_in,
        std::vector<int64_t> order_in, std::function<void(Group*)> on_group_in,
        QuantizedGradients* quantized_in)
      : parameters(std::move(parameters_in)),
        format(format_in),
        unused(unused_in),
        order(std::move(order_in)),
        on_group(std::move(on_group_in)),
        quantized(quantized_in),
        ready(parameters) {}

  // Throws, naming the parameters, unless all are in `got`.
  void RequireAllIn(const std::vector<int64_t>& got) const;

  const std::vector<NamedTensor> parameters;
  const WireFormat format;
  const bool unused;
  std::vector<int64_t> order;  // Empty until known.
  const std::function<void(Group*)> on_group;
  QuantizedGradients* const quantized;  // Null: `format` does it.
  // If false, the Reducer arranges its buckets by `order` after the first step. Always false where
  // parameters may be unused, since each rank then has its own order.
  bool order_was_known = !order.empty() && !unused;
  GradientOrder ready;  // Of the current pass.
  Group* group = nullptr;
  // For the hook, which is only created once.
  const GroupHolder torch_group = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>();
  std::shared_ptr<c10d::Reducer> reducer;  // Null without a group.
  std::shared_ptr<c10d::Logger> logger;    // The Reducer needs one if parameters may be unused.
  bool reduces = false;                    // In the current backward pass.

  void MakeReducer();
};

void GradientMean::Parts::MakeReducer() {
  std::vector<at::Tensor> tensors;
  std::unordered_map<size_t, std::string> names;  // For torch's error messages.
  for (const NamedTensor& parameter : parameters) {
    names[tensors.size()] = parameter.name;
    tensors.push_back(parameter.tensor);
  }
  const std::vector<bool> sparse(tensors.size(), false);
  std::vector<at::Tensor> ordered;
  if (order_was_known) {
    for (const int64_t index : order) ordered.push_back(tensors[static_cast<size_t>(index)]);
  }
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      order_was_known ? ordered : tensors, {size_t{kFirstBucketBytes}, size_t{kBucketBytes}},
      sparse, order_was_known ? order : std::vector<int64_t>()));
  // Gradients become ready roughly in reverse order of the parameters.
  if (!order_was_known) std::reverse(buckets.begin(), buckets.end());
  // Sizes of single buckets are an argument since torch 2.11.
  reducer = std::make_shared<c10d::Reducer>(
      std::move(tensors), std::move(buckets), group->torch_group(), sparse, kBucketBytes, unused,
      /*gradient_as_bucket_view=*/true, std::move(names), kFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
      ,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{}
#endif
  );
  if (unused) {
    logger = std::make_shared<c10d::Logger>(reducer);
    reducer->set_logger(logger);
  }
  if (quantized != nullptr) {
    reducer->register_comm_hook(std::make_unique<QuantizeHook>(quantized));
    return;
  }
  if (format == WireFormat::kFp32) return;
  const auto type = format == WireFormat::kFp16 ? at::kHalf : at::kBFloat16;
  reducer->register_comm_hook(std::make_unique<CompressHook>(torch_group, type));
}

void GradientMean::Parts::RequireAllIn(const std::vector<int64_t>& got) const {
  std::vector<std::string> without;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (std::find(got.begin(), got.end(), static_cast<int64_t>(i)) == got.end()) {
      without.push_back(parameters[i].name);
    }
  }
  RequireGradients(without);
}

GradientMean::GradientMean(std::vector<NamedTensor> parameters, WireFormat format, bool unused,
                           std::vector<int64_t> order, std::function<void(Group*)> on_group,
                           QuantizedGradients* quantized)
    : parts_(std::make_unique<Parts>(std::move(parameters), format, unused, std::move(order),
                                     std::move(on_group), quantized)) {}

GradientMean::~GradientMean() = default;

void GradientMean::SetGroup(Group* group) {
  if (group != nullptr && group->size() == 1) group = nullptr;
  if (group == parts_->group) return;
  parts_->group = group;
  if (parts_->quantized != nullptr) parts_->quantized->SetGroup(group);
  if (parts_->on_group) return parts_->on_group(group);
  if (group == nullptr) {
    parts_->logger.reset();
    parts_->reducer.reset();  // Also frees the buckets.
    parts_->torch_group->reset();
    return;
  }
  *parts_->torch_group = group->torch_group();
  if (parts_->reducer == nullptr) {
    parts_->MakeReducer();
  } else {
    parts_->reducer->update_process_group(group->torch_group());
  }
}

Group* GradientMean::group() const { return parts_->group; }

void GradientMean::BeginForward(bool last) {
  parts_->reduces = last && parts_->reducer != nullptr;
  if (parts_->quantized != nullptr) parts_->quantized->BeginPass();
  if (parts_->reducer == nullptr) return;
  parts_->reducer->prepare_for_forward();
  // Acts once, after the first step: puts the buckets in the order of the gradients. Must come
  // before the pass: gradients that exist would be divided differently than later ones.
  try {
    parts_->reducer->rebuild_buckets();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    throw CollectiveError("layout of the gradients", error.what());
  }
  // Otherwise the Reducer only adds gradients up. With unused parameters, Backward calls this.
  if (last && !parts_->unused) parts_->reducer->prepare_for_backward({});
}

void GradientMean::Backward(const at::Tensor& loss, const std::function<void()>& on_computed) {
  // The engine runs queued callbacks after the last gradient, in queue order. This one is queued
  // before any gradient exists, so it runs before the Reducer's, which waits for the buckets.
  bool computed = false;
  const auto mark = [&] {
    computed = true;
    on_computed();
  };
  loss.register_hook([&](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback(mark);
  });
  parts_->ready.Take();  // Drops those of an interrupted pass.
  std::vector<int64_t> got;
  try {
    if (parts_->reduces && parts_->unused) parts_->reducer->prepare_for_backward({loss});
    loss.backward();
    got = parts_->ready.Take();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    if (!computed || !parts_->reduces) throw;
    throw CollectiveError("mean of the gradients", error.what());
  }
  if (got.size() < parts_->parameters.size() && parts_->reduces && !parts_->unused) {
    parts_->RequireAllIn(got);
  }
  if (parts_->quantized != nullptr && parts_->reduces) parts_->quantized->Finish();
  if (parts_->order.empty()) parts_->order = parts_->ready.Completed(std::move(got));
}

const std::vector<int64_t>& GradientMean::order() const { return parts_->order; }

int64_t GradientMean::bytes() const {
  if (parts_->group == nullptr) return 0;
  if (parts_->quantized != nullptr) return parts_->quantized->bytes();
  int64_t bytes = 0;
  for (const NamedTensor& parameter : parts_->parameters) {
    const auto size = static_cast<int64_t>(parameter.tensor.nbytes());
    bytes += parts_->format == WireFormat::kFp32 ? size : 2 * parameter.tensor.numel();
  }
  const int64_t members = parts_->group->size();
  return 2 * (members - 1) * bytes / members;
}

GradientOrder::GradientOrder(const std::vector<NamedTensor>& parameters)
    : parameters_(TensorsOf(parameters)) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(parameters_[i].register_hook(
        [this, i](const at::Tensor&) { order_.push_back(static_cast<int64_t>(i)); }));
  }
}

GradientOrder::~GradientOrder() {
  for (size_t i = 0; i < hooks_.size(); ++i) parameters_[i].remove_hook(hooks_[i]);
}

std::vector<int64_t> GradientOrder::Take() {
  // A parameter used twice has one gradient, ready with its last part.
  std::vector<bool> taken(parameters_.size());
  std::vector<int64_t> order;
  for (auto index = order_.rbegin(); index != order_.rend(); ++index) {
    if (!taken[static_cast<size_t>(*index)]) order.push_back(*index);
    taken[static_cast<size_t>(*index)] = true;
  }
  std::reverse(order.begin(), order.end());
  order_.clear();
  return order;
}

std::vector<int64_t> GradientOrder::Completed(std::vector<int64_t> order) const {
  std::vector<bool> has(parameters_.size());
  for (const int64_t index : order) has[static_cast<size_t>(index)] = true;
  for (size_t i = 0; i < has.size(); ++i) {
    if (!has[i]) order.push_back(static_cast<int64_t>(i));
  }
  return order;
}

}  // namespace paceline
