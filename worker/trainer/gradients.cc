#include "worker/trainer/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace paceline {
namespace {

constexpr double kLeastNorm = 1e-6;

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    TORCH_CHECK(parameters[i].grad().defined(), "parameter ", i, " has no gradient");
    gradients.push_back(parameters[i].grad());
  }
  return gradients;
}

}  // namespace

GradientNorms NormsOfGradients(const std::vector<at::Tensor>& parameters) {
  at::NoGradGuard no_grad;
  GradientNorms norms;
  norms.each = at::stack(at::_foreach_norm(GradientsOf(parameters), 2));
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
  at::_foreach_mul_(GradientsOf(parameters), ClipFactor(norm, max_norm));
}

at::Tensor NotFinite(const at::Tensor& norm) {
  at::NoGradGuard no_grad;
  return at::isfinite(norm).logical_not_().to(at::kFloat);
}

}  // namespace paceline
