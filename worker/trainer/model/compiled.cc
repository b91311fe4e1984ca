#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/version.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/compiled_files.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/model/compiled_package.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::inductor::AOTIModelPackageLoader;
using Kind = CompiledTensor::Kind;
using Tensors = std::map<std::string, at::Tensor>;

constexpr char kTrain[] = "train";
constexpr char kEvaluate[] = "evaluate";
constexpr char kSingle[] = "single";  // In evaluation, of one sample; not for batches of one.

// The first line of torch's message.
std::string Reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

// What a pass in training has computed.
struct TrainingPass {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;  // Of the parameters, in their order.
};

// Gives the gradients of a pass that is over to autograd, which brings them to the parameters.
class ComputedGradients : public torch::autograd::Function<ComputedGradients> {
 public:
  // Takes the gradients out of `pass`, and returns its loss.
  static at::Tensor forward(AutogradContext* context, const at::TensorList& /*parameters*/,
                            TrainingPass* pass) {
    context->saved_data["gradients"] = c10::IValue(std::move(pass->gradients));
    return pass->loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list gradients = context->saved_data["gradients"].toTensorVector();
    context->saved_data.clear();  // With one owner, they need not be copied.
    const double factor = grads[0].item<double>();
    if (factor != 1) at::_foreach_mul_(gradients, at::Scalar(factor));
    gradients.emplace_back();  // Of the pass.
    return gradients;
  }
};

// Sums that the code leaves to torch, such as those of an embedding's gradient, are made in one
// order from now on in this process: otherwise threads add in the order in which they come.
void AddInOneOrder() {
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
}

// Removes what torch's loader has unpacked for an entry, /tmp/NAME/PACKAGE/data/aotinductor/ENTRY.
// The code stays mapped; a process that is killed would leave the files.
void RemoveUnpacked(const std::string& entry) {
  const std::string folder = absl::StrCat("/data/aotinductor/", entry, "/");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find("/tmp/");
    const size_t end = line.find(folder);
    if (begin == line.npos || end == line.npos || begin != line.find('/') || end < begin) continue;
    const std::filesystem::path package = line.substr(begin, end - begin);
    if (package.parent_path().parent_path() != "/tmp") continue;
    std::error_code ignored;
    std::filesystem::remove_all(package, ignored);
    std::filesystem::remove(package.parent_path(), ignored);
  }
}

// An entry of the package and the constants that it takes.
struct Entry {
  std::unique_ptr<AOTIModelPackageLoader> loader;
  std::vector<at::Tensor> constants;
};

class Compiled : public Model {
 public:
  // `tensors`: of the state and all constants, of the package's forms.
  Compiled(std::string file, CompiledPackage package, Tensors tensors, at::Device device)
      : Model(device),
        file_(std::move(file)),
        package_(std::move(package)),
        tensors_(std::move(tensors)) {
    std::map<std::string, const CompiledTensor*> by_name;
    for (const CompiledTensor& one : package_.state) {
      by_name[one.name] = &one;
      state_.push_back(AddAs(one.kind, one.name, tensors_.at(one.name)));
      if (one.kind == Kind::kChanged) changed_.push_back(state_.back());
      tensors_.at(one.name) = state_.back();
    }
    for (const TiedName& one : package_.tied) {
      AddAs(by_name.at(one.first)->kind, one.name, tensors_.at(one.first));
    }
    trained_ = TensorsOf(parameters());
    SetCountedFlops(package_.flops_per_sample);
  }

  // Loads the package's code. Throws torch's exceptions.
  void LoadEntries() {
    AddInOneOrder();
    train_ = LoadEntry(kTrain);
    evaluate_ = LoadEntry(kEvaluate);
    if (package_.batch() > 1) single_ = LoadEntry(kSingle);
  }

  at::Tensor Loss(const Batch& batch) override {
    TrainingPass pass = Train(batch);
    const at::TensorList parameters(trained_);
    return ComputedGradients::apply(parameters, &pass).to(at::kFloat);
  }

  Score Evaluate(const Batch& batch) override {
    Score score;
    score.correct = -1;
    score.predictions = static_cast<double>(batch.samples);
    if (batch.samples == package_.batch()) {
      score.loss = LossOf(evaluate_, batch.inputs, batch.targets, batch.samples) *
                   static_cast<double>(batch.samples);
      return score;
    }
    // What is left over at the end of the data.
    for (int64_t i = 0; i < batch.samples; ++i) {
      score.loss += LossOf(single_, batch.inputs.narrow(0, i, 1), batch.targets.narrow(0, i, 1), 1);
    }
    return score;
  }

  absl::Status CheckBatch(int64_t samples, int /*ranks*/) const override {
    if (samples == package_.batch()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_per_rank: is ", samples, ", and ", file_, " was exported for batches of ",
        package_.batch(), "; give that, or export the model with --batch ", samples));
  }

 private:
  at::Tensor AddAs(Kind kind, const std::string& name, const at::Tensor& tensor) {
    if (kind == Kind::kParameter) return AddParameter(name, tensor);
    return AddBuffer(name, tensor, /*frozen=*/kind == Kind::kKept);
  }

  Entry LoadEntry(const std::string& name) const {
    Entry entry;
    entry.loader = std::make_unique<AOTIModelPackageLoader>(file_, name);
    RemoveUnpacked(name);
    for (const CompiledTensor& one : package_.constants) {
      if (absl::StartsWith(one.name, absl::StrCat("constant.", name, "."))) {
        entry.constants.push_back(tensors_.at(one.name));
      }
    }
    return entry;
  }

  // The code does not check what it gets, and reads beyond the end of what is too short.
  static void Check(const CompiledForm& form, const at::Tensor& tensor, const std::string& name) {
    TORCH_CHECK_VALUE(tensor.scalar_type() == form.type &&
                          tensor.sizes() == at::IntArrayRef(form.shape) && tensor.is_contiguous() &&
                          tensor.device().is_cpu(),
                      name, " is ", c10::toString(tensor.scalar_type()), " ", tensor.sizes(),
                      ", and the compiled model takes ", CompiledFormText(form), ", contiguous");
  }

  // Runs the entry, which returns so many tensors, on `samples` samples. No two of what it returns,
  // and none of the model's, share memory.
  std::vector<at::Tensor> Run(const Entry& entry, const at::Tensor& inputs,
                              const at::Tensor& targets, int64_t samples, size_t results) {
    std::vector<at::Tensor> taken;
    for (size_t i = 0; i < state_.size(); ++i) {
      Check(package_.state[i].form, state_[i], package_.state[i].name);
      taken.push_back(state_[i].detach());
    }
    CompiledForm form = package_.inputs;
    form.shape.front() = samples;
    Check(form, inputs, "the batch's inputs");
    taken.push_back(inputs);
    form = package_.targets;
    form.shape.front() = samples;
    Check(form, targets, "the batch's targets");
    taken.push_back(targets);
    taken.insert(taken.end(), entry.constants.begin(), entry.constants.end());
    // The code takes its number of threads from OpenMP, which has one for each thread.
    at::internal::lazy_init_num_threads();
    std::set<const void*> memory;
    for (const at::Tensor& one : taken) memory.insert(one.storage().data());
    std::vector<at::Tensor> got = entry.loader->boxed_run(std::move(taken));
    TORCH_CHECK_VALUE(got.size() == results, "model.file: ", file_, ": returned ", got.size(),
                      " tensors instead of ", results);
    // Results that are equal, as the gradients of two biases of one sum, are one tensor, and one
    // may be a tensor that the code got. Each is changed in place later.
    for (at::Tensor& one : got) {
      if (!memory.insert(one.storage().data()).second) one = one.clone();
    }
    return got;
  }

  TrainingPass Train(const Batch& batch) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> got = Run(train_, batch.inputs, batch.targets, package_.batch(),
                                      1 + trained_.size() + changed_.size());
    TrainingPass pass;
    pass.loss = got.front();
    for (size_t i = 0; i < trained_.size(); ++i) pass.gradients.push_back(std::move(got[1 + i]));
    for (size_t i = 0; i < changed_.size(); ++i) changed_[i].copy_(got[1 + trained_.size() + i]);
    return pass;
  }

  // The mean loss in evaluation.
  double LossOf(const Entry& entry, const at::Tensor& inputs, const at::Tensor& targets,
                int64_t samples) {
    const at::NoGradGuard no_grad;
    return Run(entry, inputs, targets, samples, 1).front().item<double>();
  }

  const std::string file_;
  const CompiledPackage package_;
  Tensors tensors_;                  // Of the state, as registered, and the constants.
  std::vector<at::Tensor> state_;    // In the package's order.
  std::vector<at::Tensor> trained_;  // Parts of it.
  std::vector<at::Tensor> changed_;
  Entry train_;
  Entry evaluate_;
  Entry single_;
};

// Copies of all tensors in a safetensors file.
absl::StatusOr<Tensors> ReadTensors(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  Tensors tensors;
  for (const Safetensor& entry : file.tensors()) {
    const auto type = TypeOfDtype(entry.dtype);
    if (!type.has_value()) continue;
    // from_blob cannot express const; the tensor is only read.
    tensors[entry.name] =
        at::from_blob(const_cast<char*>(entry.bytes.data()), entry.shape, at::dtype(*type)).clone();
  }
  return tensors;
}

absl::Status CheckWeights(const CompiledPackage& package, const Tensors& tensors) {
  for (const auto* list : {&package.state, &package.constants}) {
    for (const CompiledTensor& one : *list) {
      const auto found = tensors.find(one.name);
      if (found == tensors.end()) {
        return absl::InvalidArgumentError(absl::StrCat("lacks ", one.name));
      }
      const CompiledForm has{found->second.scalar_type(), found->second.sizes().vec()};
      if (has.type != one.form.type || has.shape != one.form.shape) {
        return absl::InvalidArgumentError(absl::StrCat("has ", one.name, " as ",
                                                       CompiledFormText(has), " instead of ",
                                                       CompiledFormText(one.form)));
      }
    }
  }
  return absl::OkStatus();
}

// Without loading its code. Throws what torch throws.
std::unordered_map<std::string, std::string> MetadataOf(const std::string& file) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10
  return AOTIModelPackageLoader::load_metadata_from_package(file, kTrain);
#else  // Only engines of sessions are built for it, and they load no such file.
  TORCH_CHECK(false, "torch ", TORCH_VERSION, " cannot look into ", file, "; 2.10 and later can");
#endif
}

std::string CpuInfo() {
  std::ostringstream text;
  text << std::ifstream("/proc/cpuinfo").rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadCompiled(const std::string& file,
                                                    const SampleFormat& format, at::Device device) {
  const auto error = [](const std::string& path, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("model.file: ", path, ": ", what));
  };
  if (!device.is_cpu()) return error(file, "compiled models run on CPUs only so far");
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return error(file, "there is no such file");
  std::unordered_map<std::string, std::string> metadata;
  try {
    metadata = MetadataOf(file);
  } catch (const std::exception& caught) {
    return error(
        file, absl::StrCat("is no package that python -m paceline.export wrote: ", Reason(caught)));
  }
  absl::StatusOr<CompiledPackage> package = ParseCompiledPackage(metadata);
  if (!package.ok()) return error(file, package.status().message());
  absl::Status fits = CheckCompiledFor(*package, TORCH_VERSION, CpuInfo());
  if (fits.ok()) fits = CheckCompiledData(*package, format);
  if (!fits.ok()) return error(file, fits.message());
  const std::string weights = CompiledWeightsOf(file);
  absl::StatusOr<Tensors> tensors = ReadTensors(weights);
  if (!tensors.ok()) return error(weights, tensors.status().message());
  if (const absl::Status all = CheckWeights(*package, *tensors); !all.ok()) {
    return error(weights, absl::StrCat(all.message(), "; export the model anew"));
  }
  auto model = std::make_unique<Compiled>(file, *std::move(package), *std::move(tensors), device);
  try {
    model->LoadEntries();
  } catch (const std::exception& caught) {
    return error(file, absl::StrCat("its code cannot be loaded: ", Reason(caught)));
  }
  return model;
}

}  // namespace paceline
