#include "worker/trainer/loop/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstddef>

#include "absl/strings/str_join.h"

namespace paceline {
namespace {

constexpr double kLeastNorm = 1e-6;

// The gradients of those parameters that have one.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

GradientNorms NormsOfGradients(const std::vector<at::Tensor>& parameters) {
  at::NoGradGuard no_grad;
  // The norm of bf16 values needs more digits than bf16 has.
  at::ScalarType type = at::kFloat;
  for (const at::Tensor& one : parameters) type = c10::promoteTypes(type, one.scalar_type());
  const std::vector<at::Tensor> gradients = GradientsOf(parameters);
  std::vector<at::Tensor> each;
  if (!gradients.empty()) each = at::_foreach_norm(gradients, 2, type);
  if (gradients.size() < parameters.size()) {
    const at::Tensor none = at::zeros({}, at::dtype(type).device(parameters.front().device()));
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined())
        each.insert(each.begin() + static_cast<std::ptrdiff_t>(i), none);
    }
  }
  GradientNorms norms;
  norms.each = at::stack(each);
  norms.total = at::linalg_vector_norm(norms.each);
  return norms;
}

double ClipFactor(double norm, double max_norm) {
  const double factor = max_norm / (norm + kLeastNorm);
  return factor > 1 ? 1 : factor;
}

at::Tensor ClipFactor(const at::Tensor& norm, double max_norm) {
  at::NoGradGuard no_grad;
  return at::add(norm, kLeastNorm).reciprocal_().mul_(max_norm).clamp_max_(1);
}

void ClipGradients(const std::vector<at::Tensor>& parameters, const at::Tensor& norm,
                   double max_norm) {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = GradientsOf(parameters);
  const at::Tensor factor = ClipFactor(norm, max_norm);
  // A pass over all gradients that would change none. To know it of a GPU would be to wait for it.
  const bool changes_none = factor.is_cpu() && factor.item<double>() == 1;
  if (!gradients.empty() && !changes_none) at::_foreach_mul_(gradients, factor);
}

GradientNorms ClipPart(const std::vector<at::Tensor>& parameters, GradientNorms own, double total,
                       double max_norm) {
  at::NoGradGuard no_grad;
  own.total.fill_(total);
  if (max_norm > 0) ClipGradients(parameters, own.total, max_norm);
  return own;
}

at::Tensor NotFinite(const at::Tensor& norm) {
  at::NoGradGuard no_grad;
  return at::isfinite(norm).logical_not_().to(at::kFloat);
}

void RequireGradients(const std::vector<std::string>& without) {
  TORCH_CHECK_VALUE(without.empty(), "the loss does not depend on ", absl::StrJoin(without, ", "),
                    ": every parameter that requires a gradient must take part in each step. If a "
                    "branch of the model is not always used, give model.unused_parameters: true");
}

}  // namespace paceline
