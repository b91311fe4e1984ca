#include "python/csrc/python_interpreter.h"

#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include "python/csrc/python_call.h"

namespace paceline {

std::string PythonInterpreter::WhyNotTraced() {
  const py::gil_scoped_acquire gil;
  return CallPython(py::module_::import("paceline.profiling"), "problem",
                    [](const py::object& problem) { return problem.cast<std::string>(); });
}

void PythonInterpreter::Do(const std::function<void()>& part) {
  const py::gil_scoped_acquire gil;
  part();
}

}  // namespace paceline
