// paceline._engine: ranks on CPUs.
#include "python/csrc/module.h"
#include "worker/trainer/comm/cpu_platform.h"

namespace paceline {

PYBIND11_MODULE(_engine, m) { DefineModule(m, *new CpuPlatform()); }

}  // namespace paceline
