#include "tests/gpu/gpu_count.h"

#include <c10/cuda/CUDAFunctions.h>

namespace paceline {

int GpuCount() { return c10::cuda::device_count(); }

}  // namespace paceline
