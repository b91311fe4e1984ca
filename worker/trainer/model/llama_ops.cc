#include "worker/trainer/model/llama_ops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "worker/trainer/model/cpu_kernels.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Minimum elements per thread: less is not worth waking another one.
constexpr int64_t kGrain = 32768;

bool HasKernel(const at::Tensor& x) { return x.device().is_cpu() && x.scalar_type() == at::kFloat; }

template <typename F>
void ForRows(int64_t rows, int64_t row_size, const F& run) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / row_size), run);
}

class RmsNormOnCpu : public Function<RmsNormOnCpu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, double epsilon) {
    const at::Tensor x = input.contiguous();
    const int64_t dim = x.size(-1);
    const int64_t rows = x.numel() / dim;
    at::Tensor y = at::empty_like(x);
    at::Tensor scale = at::empty({rows}, x.options());
    const float* from = x.const_data_ptr<float>();
    const float* weights = weight.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    float* scales = scale.mutable_data_ptr<float>();
    ForRows(rows, dim, [&](int64_t begin, int64_t end) {
      RmsNormRows(from + begin * dim, weights, end - begin, dim, static_cast<float>(epsilon),
                  to + begin * dim, scales + begin);
    });
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    // Rows per partial sum. It does not depend on the number of threads, so neither does the
    // result.
    constexpr int64_t kRowsPerSum = 64;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor grad_y = grads[0].contiguous();
    const int64_t dim = x.size(-1);
    const int64_t rows = x.numel() / dim;
    const int64_t sums = (rows + kRowsPerSum - 1) / kRowsPerSum;
    at::Tensor grad_x = at::empty_like(x);
    at::Tensor partial = at::empty({sums, dim}, x.options());
    const float* from = x.const_data_ptr<float>();
    const float* grad_from = grad_y.const_data_ptr<float>();
    const float* weights = saved[1].const_data_ptr<float>();
    const float* scales = saved[2].const_data_ptr<float>();
    float* to = grad_x.mutable_data_ptr<float>();
    float* sums_to = partial.mutable_data_ptr<float>();
    at::parallel_for(0, sums, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i * kRowsPerSum;
        RmsNormRowsBackward(grad_from + row * dim, from + row * dim, weights, scales + row,
                            std::min(kRowsPerSum, rows - row), dim, to + row * dim,
                            sums_to + i * dim);
      }
    });
    return {grad_x, partial.sum(0), at::Tensor()};
  }
};

// Rotates by `direction` (1 or -1) times the angles.
at::Tensor Turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int direction) {
  at::Tensor y = at::empty_like(x);
  const int64_t length = x.size(1);
  const int64_t heads = x.size(2);
  const int64_t dim = x.size(3);
  if (HasKernel(x)) {
    const float* from = x.const_data_ptr<float>();
    const float* cosines = cos.const_data_ptr<float>();
    const float* sines = sin.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    ForRows(x.size(0) * length, heads * dim, [&](int64_t begin, int64_t end) {
      RotateRows(from + begin * heads * dim, cosines, sines, begin, end - begin, length, heads, dim,
                 static_cast<float>(direction), to + begin * heads * dim);
    });
    return y;
  }
  const at::Tensor c = cos.unsqueeze(1);  // [length, 1, dim / 2]
  const at::Tensor s = sin.unsqueeze(1);
  const at::Tensor low = x.narrow(3, 0, dim / 2);
  const at::Tensor high = x.narrow(3, dim / 2, dim / 2);
  at::Tensor y_low = y.narrow(3, 0, dim / 2);
  at::Tensor y_high = y.narrow(3, dim / 2, dim / 2);
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

class SwiGluOnCpu : public Function<SwiGluOnCpu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_input,
                            const at::Tensor& up_input) {
    const at::Tensor gate = gate_input.contiguous();
    const at::Tensor up = up_input.contiguous();
    at::Tensor y = at::empty_like(gate);
    const float* gates = gate.const_data_ptr<float>();
    const float* ups = up.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      SwiGluElements(gates + begin, ups + begin, end - begin, to + begin);
    });
    context->save_for_backward({gate, up});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor grad_y = grads[0].contiguous();
    at::Tensor grad_gate = at::empty_like(saved[0]);
    at::Tensor grad_up = at::empty_like(saved[1]);
    const float* from = grad_y.const_data_ptr<float>();
    const float* gates = saved[0].const_data_ptr<float>();
    const float* ups = saved[1].const_data_ptr<float>();
    float* gates_to = grad_gate.mutable_data_ptr<float>();
    float* ups_to = grad_up.mutable_data_ptr<float>();
    at::parallel_for(0, grad_y.numel(), kGrain, [&](int64_t begin, int64_t end) {
      SwiGluElementsBackward(from + begin, gates + begin, ups + begin, end - begin,
                             gates_to + begin, ups_to + begin);
    });
    return {grad_gate, grad_up};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (HasKernel(x)) return RmsNormOnCpu::apply(x, weight, epsilon);
  return at::rms_norm(x.to(at::kFloat), weight.sizes(), weight, epsilon);
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
  if (HasKernel(gate)) return SwiGluOnCpu::apply(gate, up);
  return at::silu(gate).mul(up);
}

}  // namespace paceline
