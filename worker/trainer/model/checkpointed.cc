#include "worker/trainer/model/checkpointed.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Restores autocast, without its cache of cast weights: each cast is used once, and one from the
// forward pass, which keeps no graph, must not be reused in the backward pass.
class UncachedAutocast {
 public:
  UncachedAutocast(c10::DeviceType device, bool enabled, at::ScalarType dtype)
      : device_(device),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)),
        cache_before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~UncachedAutocast() {
    at::autocast::set_autocast_enabled(device_, enabled_before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
    at::autocast::set_autocast_cache_enabled(cache_before_);
  }
  UncachedAutocast(const UncachedAutocast&) = delete;
  UncachedAutocast& operator=(const UncachedAutocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_before_;
  const at::ScalarType dtype_before_;
  const bool cache_before_;
};

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  // Runs without gradients, like every Function's forward.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const Recomputable* part) {
    const c10::DeviceType device = x.device().type();
    const bool enabled = at::autocast::is_autocast_enabled(device);
    const at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
    context->save_for_backward({x});
    // An IValue cannot hold a pointer, so it holds the address.
    context->saved_data["part"] = reinterpret_cast<int64_t>(part);
    context->saved_data["autocast"] = enabled;
    context->saved_data["dtype"] = dtype;
    const UncachedAutocast autocast(device, enabled, dtype);
    part->Begin();
    const at::Tensor y = part->Compute(x);
    part->End();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const auto* part = reinterpret_cast<const Recomputable*>(context->saved_data["part"].toInt());
    at::Tensor y;
    part->Begin();
    {
      const at::AutoGradMode with_graph(true);
      const UncachedAutocast autocast(x.device().type(), context->saved_data["autocast"].toBool(),
                                      context->saved_data["dtype"].toScalarType());
      y = part->Compute(x);
    }
    torch::autograd::backward({y}, {grads[0]});
    part->End();
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor Checkpointed(const Recomputable& part, const at::Tensor& x) {
  return CheckpointFunction::apply(x, &part);
}

}  // namespace paceline
