// A device's peak rate of operations, and the share of it that a training uses: the model FLOPs
// utilisation (MFU).
#ifndef WORKER_TRAINER_CORE_DEVICE_PEAK_H_
#define WORKER_TRAINER_CORE_DEVICE_PEAK_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace paceline {

// Dense BF16 operations per second of a device, without the sparsity that data sheets like to
// include. Looks for known names in the vendor's name ("NVIDIA H200"), ignoring case; the longest
// match wins, so an "H100 PCIe" is not an H100. Unset for an unknown device.
std::optional<double> DevicePeakFlops(absl::string_view device_name);

// The share of `peak_flops` (per second, > 0) that doing `flops` operations in `seconds` is. Unset
// without operations or time, or when it would be above 1: then the peak or the count is wrong, and
// no figure is better than a wrong one.
std::optional<double> Mfu(double flops, double seconds, double peak_flops);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_DEVICE_PEAK_H_
