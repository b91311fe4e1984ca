#include "worker/trainer/model/llama_ops.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "worker/trainer/model/cpu_llama_kernels.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

class RmsNormOfRows : public Function<RmsNormOfRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight_input, double epsilon, at::ScalarType type) {
    const at::Tensor x = input.contiguous();
    const at::Tensor weight = weight_input.contiguous();
    const at::Tensor rows = x.view({-1, x.size(-1)});
    at::Tensor y = at::empty_like(x, x.options().dtype(type));
    const at::Tensor scale = at::empty({rows.size(0)}, x.options());
    RmsNormOnCpu(rows, weight, epsilon, y.view(rows.sizes()), scale);
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor rows = x.view({-1, x.size(-1)});
    const at::Tensor grad_x = at::empty_like(x);
    const at::Tensor grad_weight =
        RmsNormBackwardOnCpu(grads[0].contiguous().view(rows.sizes()), rows, saved[1], saved[2],
                             grad_x.view(rows.sizes()));
    return {grad_x, grad_weight, at::Tensor(), at::Tensor()};
  }
};

// Rotates by `direction` (1 or -1) times the angles.
at::Tensor Turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int direction) {
  at::Tensor y = at::empty_like(x);
  if (HasCpuKernel(x)) {
    RotateOnCpu(x, cos, sin, direction, y);
    return y;
  }
  const int64_t half = x.size(3) / 2;
  const at::Tensor c = cos.unsqueeze(1);  // [length, 1, head_dim / 2]
  const at::Tensor s = sin.unsqueeze(1);
  const at::Tensor low = x.narrow(3, 0, half);
  const at::Tensor high = x.narrow(3, half, half);
  at::Tensor y_low = y.narrow(3, 0, half);
  at::Tensor y_high = y.narrow(3, half, half);
  at::mul_out(y_low, low, c).addcmul_(high, s, -direction);
  at::mul_out(y_high, high, c).addcmul_(low, s, direction);
  return y;
}

class Rotation : public Function<Rotation> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return Turn(x.contiguous(), cos, sin, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    return {Turn(grads[0].contiguous(), saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

class SwiGluOfElements : public Function<SwiGluOfElements> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_input,
                            const at::Tensor& up_input) {
    const at::Tensor gate = gate_input.contiguous();
    const at::Tensor up = up_input.contiguous();
    at::Tensor y = at::empty_like(gate);
    SwiGluOnCpu(gate, up, y);
    context->save_for_backward({gate, up});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor grad_gate = at::empty_like(saved[0]);
    const at::Tensor grad_up = at::empty_like(saved[1]);
    SwiGluBackwardOnCpu(grads[0].contiguous(), saved[0], saved[1], grad_gate, grad_up);
    return {grad_gate, grad_up};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                   at::ScalarType type) {
  const bool is_float = x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
                        (type == at::kFloat || type == at::kBFloat16);
  if (is_float && HasCpuKernel(x) && weight.numel() == x.size(-1)) {
    return RmsNormOfRows::apply(x, weight, epsilon, type);
  }
  return at::rms_norm(x.to(at::kFloat), weight.sizes(), weight, epsilon).to(type);
}

RotaryTable MakeRotaryTable(int64_t length, int64_t head_dim, double theta, at::Device device) {
  // In float on the host, as in Python, whose results the weights were trained with.
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kFloat).div(head_dim);
  const at::Tensor frequencies = at::pow(theta, exponents).reciprocal();
  const at::Tensor angles = at::outer(at::arange(length, at::kFloat), frequencies);
  return {angles.cos().to(device), angles.sin().to(device)};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table) {
  return Rotation::apply(x, table.cos, table.sin);
}

at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up) {
  const bool alike = up.scalar_type() == gate.scalar_type() && up.sizes() == gate.sizes();
  if (HasCpuKernel(gate) && alike) {
    return SwiGluOfElements::apply(gate, up);
  }
  return at::silu(gate).mul(up);
}

}  // namespace paceline
