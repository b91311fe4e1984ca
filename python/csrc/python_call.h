// Calls of an object in Python by the engine, whose threads do not hold the GIL.
#ifndef PYTHON_CSRC_PYTHON_CALL_H_
#define PYTHON_CSRC_PYTHON_CALL_H_

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

// Calls a method of the object with the GIL, and returns what `take` makes of its result. Python's
// exceptions become c10::ValueError with their text.
template <typename Take, typename... Arguments>
auto CallPython(const py::object& object, const char* method, Take take, Arguments... arguments) {
  std::string error;
  {
    const py::gil_scoped_acquire gil;
    try {
      return take(object.attr(method)(std::move(arguments)...));
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  }
  C10_THROW_ERROR(ValueError, error);
}

// For `take`.
inline void TakeNothing(const py::object& /*result*/) {}
inline std::vector<at::Tensor> TakeTensors(const py::object& result) {
  return result.cast<std::vector<at::Tensor>>();
}

}  // namespace paceline

#endif  // PYTHON_CSRC_PYTHON_CALL_H_
