#include "worker/trainer/model/sync_batch_norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/var_mean.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <vector>

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All dimensions except that of the channels.
std::vector<int64_t> SampleDims(const at::Tensor& x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()) - 1);
  std::iota(dims.begin(), dims.end(), 1);
  dims[0] = 0;
  return dims;
}

// Reshapes [channels] to [1, channels, 1, ...].
at::Tensor AlongChannels(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

class SyncBatchNormFunction : public torch::autograd::Function<SyncBatchNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            at::Tensor running_mean, at::Tensor running_variance, double momentum,
                            double epsilon, Group* group) {
    const at::Tensor x = input.to(at::kFloat).contiguous();
    const int64_t channels = x.size(1);
    const auto own_count = static_cast<double>(x.numel() / channels);
    const auto [own_variance, own_mean] = at::var_mean(x, SampleDims(x), /*correction=*/0);

    // Sums of 1, x and x^2 over all members, in double: the variance is a difference of them.
    const at::Tensor m = own_mean.to(at::kDouble);
    const at::Tensor squares = own_variance.to(at::kDouble).add(m.square());
    const at::Tensor sums =
        at::cat({m, squares, at::full({1}, 1, m.options())}).mul(own_count);  // [2 channels + 1]
    group->Sum(sums);
    const at::Tensor count = sums.narrow(0, 2 * channels, 1);
    const at::Tensor mean = sums.narrow(0, 0, channels).div(count);
    const at::Tensor variance =
        sums.narrow(0, channels, channels).div(count).sub(mean.square()).clamp_min(0);

    const at::Tensor unbiased = variance.mul(count).div(count.sub(1));
    running_mean.mul_(1 - momentum).add_(mean.to(at::kFloat), momentum);
    running_variance.mul_(1 - momentum).add_(unbiased.to(at::kFloat), momentum);

    const at::Tensor mean_of_all = mean.to(at::kFloat);
    const at::Tensor variance_of_all = variance.to(at::kFloat);
    context->save_for_backward({x, weight, mean_of_all, variance_of_all, count.to(at::kFloat)});
    context->saved_data["epsilon"] = epsilon;
    // An IValue cannot hold a pointer, so it holds the address.
    context->saved_data["group"] = reinterpret_cast<int64_t>(group);
    context->saved_data["dtype"] = input.scalar_type();
    const at::Tensor y =
        std::get<0>(at::native_batch_norm(x, weight, bias, mean_of_all, variance_of_all,
                                          /*training=*/false, momentum, epsilon));
    return y.to(input.scalar_type());
  }

  // With n samples in all, scale s = 1 / sqrt(variance + epsilon), normalised z = (x - mean) s and
  // gradient g of y:
  //   grad_x = weight s (g - sum(g) / n - z sum(g z) / n), both sums over all members.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& variance = saved[3];
    const at::Tensor& count = saved[4];
    const double epsilon = context->saved_data["epsilon"].toDouble();
    auto* group = reinterpret_cast<Group*>(context->saved_data["group"].toInt());
    const at::Tensor g = grads[0].to(at::kFloat).contiguous();

    // This rank's sum(g z) and sum(g) are the gradients of weight and bias.
    const auto [no_grad_x, grad_weight, grad_bias] = at::native_batch_norm_backward(
        g, x, weight, mean, variance, /*save_mean=*/{}, /*save_invstd=*/{}, /*train=*/false,
        epsilon, {false, true, true});
    const at::Tensor sums = at::cat({grad_bias, grad_weight});
    group->Sum(sums);
    const int64_t channels = mean.numel();
    const at::Tensor mean_g = sums.narrow(0, 0, channels).div(count);
    const at::Tensor mean_gz = sums.narrow(0, channels, channels).div(count);

    // grad_x = a g + b x + c.
    const at::Tensor s = variance.add(epsilon).rsqrt();
    const at::Tensor a = weight.mul(s);
    const at::Tensor b = a.mul(s).mul(mean_gz).neg();
    const at::Tensor c = b.mul(mean).add(a.mul(mean_g)).neg();
    const at::Tensor grad_x =
        g.mul(AlongChannels(a, x)).addcmul_(x, AlongChannels(b, x)).add_(AlongChannels(c, x));
    const at::ScalarType dtype = context->saved_data["dtype"].toScalarType();
    const at::Tensor none;
    return {grad_x.to(dtype), grad_weight, grad_bias, none, none, none, none, none};
  }
};

}  // namespace

at::Tensor SyncBatchNorm(const at::Tensor& x, const BatchNormState& state, double momentum,
                         double epsilon, Group& group) {
  return SyncBatchNormFunction::apply(x, state.weight, state.bias, state.running_mean,
                                      state.running_variance, momentum, epsilon, &group);
}

}  // namespace paceline
