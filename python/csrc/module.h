// The modules paceline._engine and paceline._engine_cuda: what the package's Python calls
// (engine.h). Nothing here decides anything. They differ in their platform; a process imports one
// of them.
#ifndef PYTHON_CSRC_MODULE_H_
#define PYTHON_CSRC_MODULE_H_

#include <Python.h>
#include <torch/csrc/utils/pybind.h>

#include "worker/trainer/comm/platform.h"

namespace paceline {

// Adds the classes of python/paceline/_engine.pyi to the module. Engines train on `platform`, which
// must live as long as the process.
void DefineModule(py::module_& m, Platform& platform);

}  // namespace paceline

#endif  // PYTHON_CSRC_MODULE_H_
