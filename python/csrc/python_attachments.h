// What a script has attached, by way of an object in Python (python/paceline/state.py).
#ifndef PYTHON_CSRC_PYTHON_ATTACHMENTS_H_
#define PYTHON_CSRC_PYTHON_ATTACHMENTS_H_

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/slice.h"
#include "worker/trainer/loop/attachments.h"

namespace paceline {

// Each call takes the GIL. Python's exceptions become c10::ValueError with their text.
class PythonAttachments : public Attachments {
 public:
  // `state` has names() -> str, take(shared) -> (bytes, tensors), allocate(shared, bytes) ->
  // tensors, slices(shared, bytes) -> [slice or None], put(shared, bytes, tensors), keep() and
  // undo().
  explicit PythonAttachments(py::object state) : state_(std::move(state)) {}
  ~PythonAttachments() override;

  std::string Names() const override;
  Attachment Take(Scope scope) const override;
  std::vector<at::Tensor> Allocate(Scope scope, const std::string& schema) const override;
  std::vector<std::optional<Slice>> Slices(Scope scope, const std::string& schema) const override;
  void Put(Scope scope, const Attachment& attachment) override;
  void Keep() override;
  void Undo() override;

 private:
  py::object state_;
};

}  // namespace paceline

#endif  // PYTHON_CSRC_PYTHON_ATTACHMENTS_H_
