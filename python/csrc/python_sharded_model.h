// A script's sharded model, by way of an object in Python (python/paceline/sharded.py).
#ifndef PYTHON_CSRC_PYTHON_SHARDED_MODEL_H_
#define PYTHON_CSRC_PYTHON_SHARDED_MODEL_H_

#include <Python.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "common/core/slice.h"
#include "python/csrc/script_workload.h"

namespace paceline {

// As Python has it: shape of the whole tensor, offsets, sizes, number of the copy.
using PythonSlice =
    std::tuple<std::vector<int64_t>, std::vector<int64_t>, std::vector<int64_t>, int>;
Slice SliceOf(const PythonSlice& slice);

// Each call takes the GIL. Python's exceptions become c10::ValueError with their text.
class PythonShardedModel : public ShardedModel {
 public:
  // `object` has join([group or None]) -> bool, slices() -> [(name, slice)], leave() and
  // finish_update(skip).
  explicit PythonShardedModel(py::object object) : object_(std::move(object)) {}
  ~PythonShardedModel() override;

  bool Join(const ProcessGroups& groups) override;
  NamedSlices Slices() override;
  void Leave() override;
  void FinishUpdate(bool skip) override;

 private:
  py::object object_;
};

}  // namespace paceline

#endif  // PYTHON_CSRC_PYTHON_SHARDED_MODEL_H_
