#include "worker/trainer/comm/make_equal.h"

#include <exception>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace paceline {

void MakeEqual(Group& all, const std::vector<NamedTensor>& parameters) {
  if (all.size() == 1) return;
  const std::vector<at::Tensor> tensors = TensorsOf(parameters);
  try {
    c10d::verify_params_across_processes(all.torch_group(), tensors, std::nullopt);
  } catch (const std::exception& error) {
    throw CollectiveError("comparison of the parameters", error.what());
  }
  all.CopyFromFirst(tensors);
}

}  // namespace paceline
