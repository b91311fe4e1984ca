// paceline._engine_cuda: ranks on GPUs.
#include "python/csrc/module.h"
#include "worker/trainer/comm/cuda_platform.h"

namespace paceline {

PYBIND11_MODULE(_engine_cuda, m) { DefineModule(m, *new CudaPlatform()); }

}  // namespace paceline
