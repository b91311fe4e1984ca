#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/script.h>

#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()), " [",
                      absl::StrJoin(tensor.sizes(), ", "), "]");
}

// Returns, for example, "a float [2, 10] tensor" or "a tuple".
std::string Describe(const c10::IValue& value) {
  if (!value.isTensor()) return absl::StrCat("a value of type ", value.type()->str());
  return absl::StrCat("a tensor ", ShapeOf(value.toTensor()),
                      value.toTensor().requires_grad() ? "" : " that requires no gradients");
}

// The first line of torch's message, which may go on with the module's source.
std::string Reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // The interpreter puts the location first and the error itself last.
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "no reason given" : lines.back();
}

// Whether updating one tensor changes the other. For tensors with gaps this is unknown and taken
// for false.
bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  const at::MemOverlapStatus status = at::get_overlap_status(a, b);
  return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
}

// A user's module: forward(inputs, targets) returns the loss.
class TorchScript : public Model {
 public:
  TorchScript(std::string file, torch::jit::Module module, at::Device device)
      : Model(device), file_(std::move(file)), module_(std::move(module)) {
    for (const auto& parameter : module_.named_parameters()) {
      if (parameter.value.requires_grad()) {
        AddParameter(parameter.name, parameter.value);
      } else {
        AddBuffer(parameter.name, parameter.value, /*frozen=*/true);
      }
    }
    for (const auto& buffer : module_.named_buffers()) AddBuffer(buffer.name, buffer.value);
    module_.train();
  }

  at::Tensor Loss(const Batch& batch) override {
    const c10::IValue result = module_.forward({batch.inputs, batch.targets});
    const absl::Status status = CheckLoss(result);
    TORCH_CHECK_VALUE(status.ok(), std::string(status.message()));
    return result.toTensor().to(at::kFloat);
  }

  Score Evaluate(const Batch& batch) override {
    at::NoGradGuard no_grad;
    const auto samples = static_cast<double>(batch.samples);
    Score score;
    score.loss = module_.forward({batch.inputs, batch.targets}).toTensor().item<double>() * samples;
    score.correct = -1;
    score.predictions = samples;
    return score;
  }

  void SetTraining(bool training) override {
    Model::SetTraining(training);
    module_.train(training);
  }

  // Two names of one parameter are fine, but two parameters that share memory would each be updated
  // by their own gradient.
  absl::Status CheckOverlaps() const {
    for (size_t i = 0; i < parameters().size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const NamedTensor& a = parameters()[j];
        const NamedTensor& b = parameters()[i];
        if (!a.tensor.is_alias_of(b.tensor) || !Overlap(a.tensor, b.tensor)) continue;
        return Error(absl::StrCat(
            "the parameters ", a.name, " and ", b.name,
            " are different ones in the same memory; tie them by assigning the one parameter to "
            "both names, or copy one of them before you export the module"));
      }
    }
    return absl::OkStatus();
  }

  // Runs the module on two samples of zeros in evaluation mode, which does not change buffers.
  absl::Status TryOut(const SampleFormat& format) {
    constexpr int64_t kSamples = 2;
    const auto integers = at::dtype(at::kLong).device(device());
    Batch batch;
    if (format.image.has_value()) {
      batch.inputs = at::zeros(
          {kSamples, format.image->channels, format.image->height, format.image->width}, device());
      batch.targets = at::zeros({kSamples}, integers);
    } else {
      batch.inputs = at::zeros({kSamples, format.sequence_length.value_or(1)}, integers);
      batch.targets = batch.inputs;
    }
    module_.eval();
    try {
      PACELINE_RETURN_IF_ERROR(CheckLoss(module_.forward({batch.inputs, batch.targets})));
    } catch (const std::exception& error) {
      return Error(absl::StrCat("forward failed for inputs ", ShapeOf(batch.inputs),
                                " and targets ", ShapeOf(batch.targets), ": ", Reason(error)));
    }
    module_.train(training());
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("model.file: ", file_, ": ", what));
  }

  absl::Status CheckLoss(const c10::IValue& result) const {
    if (result.isTensor()) {
      const at::Tensor& loss = result.toTensor();
      if (loss.dim() == 0 && loss.is_floating_point() && loss.requires_grad()) {
        return absl::OkStatus();
      }
    }
    return Error(absl::StrCat("forward(inputs, targets) returned ", Describe(result),
                              "; it must return the mean loss of the batch, a scalar "
                              "floating-point tensor that requires gradients"));
  }

  const std::string file_;
  torch::jit::Module module_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadTorchScript(const std::string& file,
                                                       const SampleFormat& format,
                                                       at::Device device) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("model.file: ", file, ": ", what));
  };
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return error("there is no such file");
  torch::jit::Module module;
  try {
    module = torch::jit::load(file, device);
  } catch (const std::exception& caught) {
    return error(
        absl::StrCat("is not a TorchScript module, as torch.jit.save writes it: ", Reason(caught)));
  }
  const auto forward = module.find_method("forward");
  if (!forward.has_value()) {
    return error("the module has no method forward(inputs, targets)");
  }
  // The module itself is the first argument.
  const size_t arguments = forward->function().getSchema().arguments().size() - 1;
  if (arguments != 2) {
    return error(absl::StrCat("forward takes ", arguments,
                              " arguments; it must take two, forward(inputs, targets)"));
  }
  auto model = std::make_unique<TorchScript>(file, std::move(module), device);
  if (model->parameters().empty()) {
    return error("the module has no parameter that requires gradients");
  }
  PACELINE_RETURN_IF_ERROR(model->CheckOverlaps());
  PACELINE_RETURN_IF_ERROR(model->TryOut(format));
  return model;
}

}  // namespace paceline
