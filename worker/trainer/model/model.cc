#include "worker/trainer/model/model.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

namespace paceline {

std::vector<at::Tensor> TensorsOf(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const NamedTensor& one : named) tensors.push_back(one.tensor);
  return tensors;
}

at::Tensor ModelTensors::AddParameter(std::string name, at::Tensor initial) {
  return Add({std::move(name), initial.to(device_).requires_grad_(true)}, &parameters_);
}

at::Tensor ModelTensors::AddBuffer(std::string name, at::Tensor initial, bool frozen) {
  return Add({std::move(name), initial.to(device_), frozen}, &buffers_);
}

void ModelTensors::SetSlice(const std::string& name, Slice slice) {
  for (std::vector<NamedTensor>* list : {&parameters_, &buffers_}) {
    for (NamedTensor& one : *list) {
      if (one.name != name) continue;
      TORCH_CHECK_VALUE(IsWithin(slice.box(), slice.global_shape) &&
                            one.tensor.sizes() == at::IntArrayRef(slice.sizes),
                        name, " is no slice of these sizes of a tensor of such a shape");
      one.slice = std::move(slice);
      return;
    }
  }
  TORCH_CHECK_VALUE(false, name, " is no parameter or buffer");
}

at::Tensor ModelTensors::Add(NamedTensor named, std::vector<NamedTensor>* list) {
  for (const std::vector<NamedTensor>* known : {&parameters_, &buffers_}) {
    for (const NamedTensor& one : *known) {
      if (!one.tensor.is_same(named.tensor)) continue;
      tied_.push_back({std::move(named.name), one.name});
      return one.tensor;
    }
  }
  list->push_back(std::move(named));
  return list->back().tensor;
}

void Model::SetGatheredBlocks(const std::vector<GatheredWeights*>& /*blocks*/) {
  TORCH_CHECK(false, "the model has no blocks that could gather their matrices");
}

Model::Linear Model::AddLinear(const std::string& name, int64_t in, int64_t out) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  Linear linear;
  linear.weight = AddParameter(name + ".weight", at::empty({out, in}).uniform_(-bound, bound));
  linear.bias = AddParameter(name + ".bias", at::empty({out}).uniform_(-bound, bound));
  return linear;
}

}  // namespace paceline
