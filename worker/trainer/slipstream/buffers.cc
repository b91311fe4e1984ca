#include "worker/trainer/slipstream/buffers.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checksum.h"
#include "slipstream/copies.h"
#include "worker/trainer/loop/gradients.h"

namespace paceline {
namespace {

// Elements per chunk: small enough to stay partly in a cache during a pass.
constexpr int64_t kChunk = 1 << 16;

// The tensors that ranks have in common: parameters, then running statistics.
std::vector<NamedTensor> CommonTensors(const ModelTensors& model) {
  std::vector<NamedTensor> common = model.parameters();
  for (const NamedTensor& one : model.buffers()) {
    if (!one.frozen && one.tensor.is_floating_point()) common.push_back(one);
  }
  return common;
}

double SquareOf(const at::Tensor& norm, const SlipstreamBuffers::WaitForStream& wait) {
  wait();  // Torch would spin.
  const auto value = norm.item<double>();
  return value * value;
}

}  // namespace

absl::Status CheckSlipstream(const ModelTensors& model) {
  for (const NamedTensor& one : CommonTensors(model)) {
    if (one.tensor.scalar_type() == at::kFloat && one.tensor.is_non_overlapping_and_dense()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "slipstream needs parameters and running statistics that are float32 and dense, and ",
        one.name, " is not"));
  }
  return absl::OkStatus();
}

SlipstreamBuffers::SlipstreamBuffers(const ModelTensors& model)
    : SlipstreamBuffers(model, model.device().is_cpu()) {}

SlipstreamBuffers::SlipstreamBuffers(const ModelTensors& model, bool loops)
    : loops_(loops), parameters_(TensorsOf(model.parameters())) {
  TORCH_CHECK_VALUE(!loops || model.device().is_cpu(), "loops need the memory of a CPU");
  const absl::Status fits = CheckSlipstream(model);
  TORCH_CHECK_VALUE(fits.ok(), std::string(fits.message()));
  const at::NoGradGuard no_grad;
  for (const NamedTensor& one : CommonTensors(model)) x_.push_back(one.tensor.detach());
  for (size_t i = 0; i < x_.size(); ++i) {
    if (i < parameters_.size()) parameter_values_ += x_[i].numel();
    values_ += x_[i].numel();
  }
  z_ = at::zeros({values_}, at::TensorOptions().dtype(at::kFloat).device(model.device()));
  for (at::Tensor& buffer : buffers_) buffer = at::empty_like(z_);
  wire_ = at::empty_like(z_);
  z_views_ = Views(z_);
  z_parameters_.assign(z_views_.begin(), z_views_.begin() + Parameters());
  const std::vector<at::Tensor> wire_views = Views(wire_);
  wire_parameters_.assign(wire_views.begin(), wire_views.begin() + Parameters());
  at::_foreach_copy_(z_views_, x_);
  if (!loops_) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffer_views_[i] = Views(buffers_[i]);
    return;
  }
  int64_t flat = 0;
  for (const at::Tensor& tensor : x_) {
    float* const first = tensor.data_ptr<float>();
    for (int64_t done = 0; done < tensor.numel(); done += kChunk) {
      const int64_t count = std::min(kChunk, tensor.numel() - done);
      chunks_.push_back({first + done, flat + done, static_cast<size_t>(count)});
    }
    flat += tensor.numel();
  }
}

std::vector<at::Tensor> SlipstreamBuffers::Views(const at::Tensor& flat) const {
  std::vector<at::Tensor> views;
  int64_t offset = 0;
  for (const at::Tensor& tensor : x_) {
    views.push_back(flat.as_strided(tensor.sizes(), tensor.strides(), offset));
    offset += tensor.numel();
  }
  return views;
}

template <typename F>
void SlipstreamBuffers::ForChunks(F pass) const {
  at::parallel_for(0, static_cast<int64_t>(chunks_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pass(static_cast<size_t>(i));
  });
}

void SlipstreamBuffers::Copy(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names) {
  using Kind = ComputeOrder::Copy;
  if (!loops_) return CopyOnDevice(copy, names);
  const float* const z = z_.const_data_ptr<float>();
  float* const pub = Data(names.pub);
  float* const ref = Data(names.ref);
  float* const sent = Data(names.sent);
  ForChunks([&](size_t i) {
    const Chunk& at = chunks_[i];
    const int64_t flat = at.flat;
    switch (copy) {
      case Kind::kPublish:
        std::copy(at.x, at.x + at.count, pub + flat);
        break;
      case Kind::kRebase:
        Rebase(at.count, z + flat, at.x, ref + flat, pub + flat);
        break;
      case Kind::kRebaseInFlight:
        RebaseInFlight(at.count, z + flat, at.x, ref + flat, sent + flat, pub + flat);
        break;
      case Kind::kReset:
        std::copy(z + flat, z + flat + at.count, ref + flat);
        std::copy(z + flat, z + flat + at.count, at.x);
        break;
      case Kind::kLoad:
        std::copy(z + flat, z + flat + at.count, at.x);
        break;
    }
  });
}

void SlipstreamBuffers::CopyOnDevice(ComputeOrder::Copy copy,
                                     const SlipstreamRank::Buffers& names) {
  using Kind = ComputeOrder::Copy;
  const at::NoGradGuard no_grad;
  const auto pub = static_cast<size_t>(names.pub);
  const auto sent = static_cast<size_t>(names.sent);
  const auto ref = static_cast<size_t>(names.ref);
  switch (copy) {
    case Kind::kPublish:
      at::_foreach_copy_(buffer_views_[pub], x_);
      break;
    case Kind::kRebaseInFlight:
      buffers_[sent].sub_(buffers_[ref]).add_(z_);
      [[fallthrough]];
    case Kind::kRebase:
      at::_foreach_sub_(x_, buffer_views_[ref]);
      at::_foreach_add_(x_, z_views_);
      buffers_[ref].copy_(z_);
      at::_foreach_copy_(buffer_views_[pub], x_);
      break;
    case Kind::kReset:
      buffers_[ref].copy_(z_);
      [[fallthrough]];
    case Kind::kLoad:
      at::_foreach_copy_(x_, z_views_);
      break;
  }
}

double SlipstreamBuffers::FillUpdate(const SlipstreamRank::Buffers& names,
                                     const WaitForStream& wait) {
  if (!loops_) {
    const at::NoGradGuard no_grad;
    at::sub_out(wire_, buffers_[static_cast<size_t>(names.sent)],
                buffers_[static_cast<size_t>(names.ref)]);
    return SquareOf(at::linalg_vector_norm(wire_), wait);
  }
  const float* const sent = Data(names.sent);
  const float* const ref = Data(names.ref);
  float* const wire = wire_.mutable_data_ptr<float>();
  std::vector<double> squares(chunks_.size());
  ForChunks([&](size_t i) {
    const Chunk& at = chunks_[i];
    squares[i] = paceline::FillUpdate(at.count, sent + at.flat, ref + at.flat, wire + at.flat);
  });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

void SlipstreamBuffers::FillZeros() {
  const at::NoGradGuard no_grad;
  wire_.zero_();
}

void SlipstreamBuffers::FillGradient() {
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(wire_parameters_, gradients_);
  int64_t flat = parameter_values_;
  for (size_t i = parameters_.size(); i < x_.size(); ++i) {
    wire_.as_strided(x_[i].sizes(), x_[i].strides(), flat).copy_(x_[i]);
    flat += x_[i].numel();
  }
}

void SlipstreamBuffers::ApplyUpdates(int ranks) {
  if (!loops_) {
    const at::NoGradGuard no_grad;
    z_.add_(wire_.div_(ranks));
    return;
  }
  const float* const wire = wire_.const_data_ptr<float>();
  float* const z = z_.mutable_data_ptr<float>();
  ForChunks([&](size_t i) {
    const Chunk& at = chunks_[i];
    paceline::ApplyUpdates(at.count, wire + at.flat, ranks, z + at.flat);
  });
}

const at::Tensor& SlipstreamBuffers::rest() {
  if (!rest_.defined()) rest_ = at::zeros_like(wire_);
  return rest_;
}

void SlipstreamBuffers::ApplyLossyUpdates(int ranks, bool has_update,
                                          const SlipstreamRank::Buffers& names) {
  const int of = has_update ? names.sent : names.ref;
  if (loops_) {
    const float* const rest = rest_.const_data_ptr<float>();
    ForChunks([&](size_t i) {
      const Chunk& at = chunks_[i];
      TakeOut(at.count, rest + at.flat, Data(of) + at.flat);
    });
  } else {
    const at::NoGradGuard no_grad;
    buffers_[static_cast<size_t>(of)].sub_(rest_);
  }
  ApplyUpdates(ranks);
}

void SlipstreamBuffers::ApplyGradients(int ranks, double max_norm) {
  if (!loops_) return ApplyGradientsOnDevice(ranks, max_norm);
  float* const wire = wire_.mutable_data_ptr<float>();
  float* const z = z_.mutable_data_ptr<float>();
  std::vector<double> squares(chunks_.size());
  ForChunks([&](size_t i) {
    const Chunk& at = chunks_[i];
    const double squared = TakeMean(at.count, ranks, wire + at.flat);
    if (at.flat < parameter_values_) {
      squares[i] = squared;
    } else {
      std::copy(wire + at.flat, wire + at.flat + at.count, z + at.flat);
    }
  });
  if (max_norm == 0) return;
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  const double factor = ClipFactor(norm, max_norm);
  if (!(factor < 1)) return;
  ForChunks([&](size_t i) {
    const Chunk& at = chunks_[i];
    if (at.flat < parameter_values_) Scale(at.count, static_cast<float>(factor), wire + at.flat);
  });
}

void SlipstreamBuffers::ApplyGradientsOnDevice(int ranks, double max_norm) {
  const at::NoGradGuard no_grad;
  wire_.div_(ranks);
  const int64_t statistics = values_ - parameter_values_;
  z_.narrow(0, parameter_values_, statistics).copy_(wire_.narrow(0, parameter_values_, statistics));
  if (max_norm > 0) {
    const at::Tensor gradient = wire_.narrow(0, 0, parameter_values_);
    gradient.mul_(ClipFactor(at::linalg_vector_norm(gradient), max_norm));
  }
}

void SlipstreamBuffers::FlipBit() {
  constexpr int kBit = 20;  // A lower bit might vanish by rounding.
  const at::NoGradGuard no_grad;
  z_.narrow(0, 0, 1).view(at::kInt).bitwise_xor_(1 << kBit);
}

uint64_t SlipstreamBuffers::Hash() const {
  const at::Tensor z = z_.cpu();
  return ChecksumOf(absl::string_view(reinterpret_cast<const char*>(z.const_data_ptr<float>()),
                                      static_cast<size_t>(z.nbytes())));
}

double SlipstreamBuffers::SquaredGradient(const WaitForStream& wait) const {
  return SquareOf(NormsOfGradients(parameters_).total, wait);
}

void SlipstreamBuffers::TakeGradients() {
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) {
    gradients_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
}

void SlipstreamBuffers::DropGradients() {
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
}

}  // namespace paceline
