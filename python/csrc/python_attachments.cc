#include "python/csrc/python_attachments.h"

#include <utility>

#include "python/csrc/python_call.h"
#include "python/csrc/python_sharded_model.h"

namespace paceline {
namespace {

bool IsShared(Attachments::Scope scope) { return scope == Attachments::Scope::kShared; }

}  // namespace

PythonAttachments::~PythonAttachments() {
  const py::gil_scoped_acquire gil;
  state_ = py::object();
}

std::string PythonAttachments::Names() const {
  return CallPython(state_, "names",
                    [](const py::object& names) { return names.cast<std::string>(); });
}

Attachment PythonAttachments::Take(Scope scope) const {
  return CallPython(
      state_, "take",
      [](const py::object& taken) {
        const auto [schema, tensors] =
            taken.cast<std::pair<std::string, std::vector<at::Tensor>>>();
        return Attachment{schema, tensors};
      },
      IsShared(scope));
}

std::vector<at::Tensor> PythonAttachments::Allocate(Scope scope, const std::string& schema) const {
  const py::gil_scoped_acquire gil;
  return CallPython(state_, "allocate", TakeTensors, IsShared(scope), py::bytes(schema));
}

std::vector<std::optional<Slice>> PythonAttachments::Slices(Scope scope,
                                                            const std::string& schema) const {
  const py::gil_scoped_acquire gil;
  return CallPython(
      state_, "slices",
      [](const py::object& listed) {
        std::vector<std::optional<Slice>> slices;
        for (const auto& slice : listed.cast<std::vector<std::optional<PythonSlice>>>()) {
          slices.push_back(slice.has_value() ? std::make_optional(SliceOf(*slice)) : std::nullopt);
        }
        return slices;
      },
      IsShared(scope), py::bytes(schema));
}

void PythonAttachments::Put(Scope scope, const Attachment& attachment) {
  const py::gil_scoped_acquire gil;
  CallPython(state_, "put", TakeNothing, IsShared(scope), py::bytes(attachment.schema),
             attachment.tensors);
}

void PythonAttachments::Keep() { CallPython(state_, "keep", TakeNothing); }

void PythonAttachments::Undo() { CallPython(state_, "undo", TakeNothing); }

}  // namespace paceline
