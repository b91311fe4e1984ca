#include "worker/trainer/comm/gradient_mean.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

namespace paceline {
namespace {

// Torch's defaults: a small bucket first, so that the reduction begins early.
constexpr int64_t kFirstBucketBytes = 1 << 20;
constexpr int64_t kBucketBytes = 25 << 20;

std::shared_ptr<c10d::Reducer> MakeReducer(const Group& group,
                                           const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> tensors;
  std::unordered_map<size_t, std::string> names;  // For torch's error messages.
  for (const NamedTensor& parameter : parameters) {
    names[tensors.size()] = parameter.name;
    tensors.push_back(parameter.tensor);
  }
  const std::vector<bool> sparse(tensors.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      tensors, {size_t{kFirstBucketBytes}, size_t{kBucketBytes}}, sparse));
  // Gradients become ready about in the reverse order of the parameters.
  std::reverse(buckets.begin(), buckets.end());
  return std::make_shared<c10d::Reducer>(
      std::move(tensors), std::move(buckets), group.torch_group(), sparse, kBucketBytes,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, std::move(names),
      kFirstBucketBytes, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

}  // namespace

struct GradientMean::Parts {
  std::shared_ptr<c10d::Reducer> reducer;  // Null for a rank that is alone.
};

GradientMean::GradientMean(Group& group, const std::vector<NamedTensor>& parameters)
    : parts_(std::make_unique<Parts>()) {
  if (group.size() == 1) return;
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  try {
    c10d::verify_params_across_processes(group.torch_group(), tensors, std::nullopt);
  } catch (const std::exception& error) {
    throw CollectiveError("comparison of the parameters", error.what());
  }
  group.CopyFromRankZero(tensors);
  parts_->reducer = MakeReducer(group, parameters);
}

GradientMean::~GradientMean() = default;

void GradientMean::BeginForward() {
  if (parts_->reducer == nullptr) return;
  parts_->reducer->prepare_for_forward();
  // Acts once, after the first step: the buckets in the order in which gradients came.
  parts_->reducer->rebuild_buckets();
  parts_->reducer->prepare_for_backward({});
}

void GradientMean::Backward(const at::Tensor& loss, const std::function<void()>& on_computed) {
  // The engine runs queued callbacks after the last gradient, in the order of their queueing.
  // This one is queued before any gradient exists, hence before the Reducer's, which waits
  // for the buckets.
  bool computed = false;
  const auto mark = [&] {
    computed = true;
    on_computed();
  };
  loss.register_hook([&](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback(mark);
  });
  try {
    loss.backward();
  } catch (const std::exception& error) {
    if (!computed) throw;
    throw CollectiveError("mean of the gradients", error.what());
  }
}

}  // namespace paceline
