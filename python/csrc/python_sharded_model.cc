#include "python/csrc/python_sharded_model.h"

#include "python/csrc/python_call.h"

namespace paceline {

Slice SliceOf(const PythonSlice& slice) {
  const auto& [shape, offsets, sizes, copy] = slice;
  return {shape, offsets, sizes, copy};
}

PythonShardedModel::~PythonShardedModel() {
  const py::gil_scoped_acquire gil;
  object_ = py::object();
}

bool PythonShardedModel::Join(const ProcessGroups& groups) {
  return CallPython(
      object_, "join", [](const py::object& stays) { return stays.cast<bool>(); }, groups);
}

NamedSlices PythonShardedModel::Slices() {
  return CallPython(object_, "slices", [](const py::object& listed) {
    NamedSlices slices;
    for (const auto& [name, slice] :
         listed.cast<std::vector<std::pair<std::string, PythonSlice>>>()) {
      slices.emplace_back(name, SliceOf(slice));
    }
    return slices;
  });
}

void PythonShardedModel::Leave() { CallPython(object_, "leave", TakeNothing); }

void PythonShardedModel::FinishUpdate(bool skip) {
  CallPython(object_, "finish_update", TakeNothing, skip);
}

}  // namespace paceline
