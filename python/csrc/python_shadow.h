// A script's optimizer and schedulers in the engine's hands, by way of an object in Python
// (python/paceline/shadow.py).
#ifndef PYTHON_CSRC_PYTHON_SHADOW_H_
#define PYTHON_CSRC_PYTHON_SHADOW_H_

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "python/csrc/script_workload.h"

namespace paceline {

// Thread-safe: one call at a time. Call everything without the GIL, which each call takes: who
// waits for another one's call must not keep it.
class PythonShadow : public Shadow {
 public:
  // `object` has schedule(step) -> float, update(parameters, gradients), state() -> tensors,
  // step_counts() -> tensors and reset().
  explicit PythonShadow(py::object object) : object_(std::move(object)) {}
  ~PythonShadow() override;

  double Schedule(int64_t step) override;
  void Update(const std::vector<at::Tensor>& parameters,
              const std::vector<at::Tensor>& gradients) override;
  std::vector<at::Tensor> State() override;
  std::vector<at::Tensor> StepCounts() override;
  void Reset() override;
  void Close() override;

 private:
  // As CallPython; a call after Close throws.
  template <typename Take, typename... Arguments>
  auto Call(const char* method, Take take, Arguments... arguments);

  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  py::object object_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paceline

#endif  // PYTHON_CSRC_PYTHON_SHADOW_H_
