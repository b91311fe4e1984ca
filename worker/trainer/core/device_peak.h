// What a device can compute at most, and which share of it a training used: the model FLOPs
// utilisation (MFU).
#ifndef WORKER_TRAINER_CORE_DEVICE_PEAK_H_
#define WORKER_TRAINER_CORE_DEVICE_PEAK_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace paceline {

// Dense BF16 operations per second of a device, by a part of the name that its vendor gives it
// ("NVIDIA H200"), in any case; of several parts the longest counts, so an "H100 PCIe" is not an
// H100. Without sparsity, which data sheets like to include. Unset: not a known device.
std::optional<double> DevicePeakFlops(absl::string_view device_name);

// Share of `peak_flops` (per second, > 0) that `flops` in `seconds` are. Unset where there is
// nothing to tell (no operations or no time), or where it would be above 1: then the peak or
// the count is wrong, and no figure is better than that one.
std::optional<double> Mfu(double flops, double seconds, double peak_flops);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_DEVICE_PEAK_H_
