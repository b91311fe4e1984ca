#include "python/csrc/python_shadow.h"

#include <c10/util/Exception.h>

#include <utility>

#include "python/csrc/python_call.h"

namespace paceline {

PythonShadow::~PythonShadow() {
  const py::gil_scoped_acquire gil;
  object_ = py::object();
}

template <typename Take, typename... Arguments>
auto PythonShadow::Call(const char* method, Take take, Arguments... arguments) {
  const absl::MutexLock lock(&mu_);
  TORCH_CHECK(!closed_, "the script has ended");
  return CallPython(object_, method, take, std::move(arguments)...);
}

double PythonShadow::Schedule(int64_t step) {
  return Call(
      "schedule", [](const py::object& rate) { return rate.cast<double>(); }, step);
}

void PythonShadow::Update(const std::vector<at::Tensor>& parameters,
                          const std::vector<at::Tensor>& gradients) {
  Call("update", TakeNothing, parameters, gradients);
}

std::vector<at::Tensor> PythonShadow::State() { return Call("state", TakeTensors); }

std::vector<at::Tensor> PythonShadow::StepCounts() { return Call("step_counts", TakeTensors); }

void PythonShadow::Reset() { Call("reset", TakeNothing); }

void PythonShadow::Close() {
  const absl::MutexLock lock(&mu_);
  closed_ = true;
}

}  // namespace paceline
