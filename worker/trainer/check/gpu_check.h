// The driver's view of the GPUs' health.
#ifndef WORKER_TRAINER_CHECK_GPU_CHECK_H_
#define WORKER_TRAINER_CHECK_GPU_CHECK_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/nvml/nvml.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

// Measures for each GPU, as far as known: "gpu0_temperature", "gpu0_ecc_errors" (uncorrected, since
// the driver was loaded), "gpu0_row_errors" (memory beyond repair) and "gpu0_throttled" (1: by heat
// or power).
std::vector<Measurement> CheckGpus(const Nvml& nvml);

// Counts the Xids in the text of the kernel's log, except those that programs cause themselves: 13
// (engine exception), 31 (page fault), 43 (a program stopped). See NVIDIA's Xid catalogue.
int CountXids(absl::string_view kernel_log);

// "gpu_xid_errors" since the machine's start, as far back as the kernel's log goes. Empty when this
// user may not read the log.
std::vector<Measurement> CheckXids();

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_GPU_CHECK_H_
