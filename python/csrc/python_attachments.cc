#include "python/csrc/python_attachments.h"

#include <c10/util/Exception.h>

#include <utility>

namespace paceline {
namespace {

// Calls a method of the object, and returns what `take` makes of its result.
template <typename Take, typename... Arguments>
auto Call(const py::object& state, const char* method, Take take, Arguments... arguments) {
  std::string error;
  {
    const py::gil_scoped_acquire gil;
    try {
      return take(state.attr(method)(std::move(arguments)...));
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  }
  C10_THROW_ERROR(ValueError, error);
}

constexpr auto kNothing = [](const py::object& /*result*/) {};

std::vector<at::Tensor> Tensors(const py::object& result) {
  return result.cast<std::vector<at::Tensor>>();
}

bool IsShared(Attachments::Scope scope) { return scope == Attachments::Scope::kShared; }

}  // namespace

PythonAttachments::~PythonAttachments() {
  const py::gil_scoped_acquire gil;
  state_ = py::object();
}

std::string PythonAttachments::Names() const {
  return Call(state_, "names", [](const py::object& names) { return names.cast<std::string>(); });
}

Attachment PythonAttachments::Take(Scope scope) const {
  return Call(
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
  return Call(state_, "allocate", Tensors, IsShared(scope), py::bytes(schema));
}

void PythonAttachments::Put(Scope scope, const Attachment& attachment) {
  const py::gil_scoped_acquire gil;
  Call(state_, "put", kNothing, IsShared(scope), py::bytes(attachment.schema), attachment.tensors);
}

void PythonAttachments::Keep() { Call(state_, "keep", kNothing); }

void PythonAttachments::Undo() { Call(state_, "undo", kNothing); }

}  // namespace paceline
