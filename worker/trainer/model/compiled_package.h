// What `python -m paceline.export` says of a model that it has compiled, and whether that can run
// here. The package's metadata has it as texts of lines of words (python/paceline/export/step.py):
// it is read before any of the package's code is loaded.
#ifndef WORKER_TRAINER_MODEL_COMPILED_PACKAGE_H_
#define WORKER_TRAINER_MODEL_COMPILED_PACKAGE_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/core/model_flops.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// The only one that a compiled entry takes at a place; contiguous.
struct CompiledForm {
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
};

struct CompiledTensor {
  enum class Kind {
    kParameter,  // That is trained.
    kChanged,    // A buffer that each pass in training changes.
    kKept,       // Another buffer, or a frozen parameter.
    kConstant,   // Of the code itself.
  };
  Kind kind = Kind::kParameter;
  CompiledForm form;
  std::string name;
};

struct CompiledPackage {
  std::string torch_version;
  std::vector<std::string> instructions;  // That the code may use, as /proc/cpuinfo names them.
  CompiledForm inputs;                    // Of a batch.
  CompiledForm targets;
  std::vector<CompiledTensor> state;      // In the order in which all entries take it.
  std::vector<TiedName> tied;             // Further names of `state`.
  std::vector<CompiledTensor> constants;  // "constant.ENTRY.NUMBER", in the entries' order.
  Flops flops_per_sample;                 // None: not known.

  int64_t batch() const { return inputs.shape.front(); }
};

// DataLoss, naming the key, if the metadata are not complete.
absl::StatusOr<CompiledPackage> ParseCompiledPackage(
    const std::unordered_map<std::string, std::string>& metadata);

// FailedPrecondition unless the code was compiled for this version of torch and a machine that can
// do no more than this one. `cpuinfo`: the text of /proc/cpuinfo.
absl::Status CheckCompiledFor(const CompiledPackage& package, absl::string_view torch_version,
                              absl::string_view cpuinfo);

// InvalidArgument unless a batch of such data has the package's forms.
absl::Status CheckCompiledData(const CompiledPackage& package, const SampleFormat& format);

// "Float [8, 1, 32, 32]"
std::string CompiledFormText(const CompiledForm& form);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_COMPILED_PACKAGE_H_
