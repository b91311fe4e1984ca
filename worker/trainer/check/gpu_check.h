// What the driver tells of the health of the GPUs.
#ifndef WORKER_TRAINER_CHECK_GPU_CHECK_H_
#define WORKER_TRAINER_CHECK_GPU_CHECK_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/nvml/nvml.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

// Of each GPU "gpu0_temperature", "gpu0_ecc_errors" (uncorrected, since the driver was loaded),
// "gpu0_row_errors" (memory that cannot be repaired) and "gpu0_throttled" (1: by heat or power),
// as far as they are known.
std::vector<Measurement> CheckGpus(const Nvml& nvml);

// Xids in the text of the kernel's log, without those that programs cause themselves: 13 (engine
// exception), 31 (page fault), 43 (a program stopped). Numbers: NVIDIA's catalogue of Xid messages.
int CountXids(absl::string_view kernel_log);

// "gpu_xid_errors", since the machine's start as far as the kernel's log goes back; empty when this
// user may not read it.
std::vector<Measurement> CheckXids();

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_GPU_CHECK_H_
