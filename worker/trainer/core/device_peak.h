// A device's peak rates of operations, and the share of them that a training uses: the model FLOPs
// utilisation (MFU).
#ifndef WORKER_TRAINER_CORE_DEVICE_PEAK_H_
#define WORKER_TRAINER_CORE_DEVICE_PEAK_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "worker/trainer/core/model_flops.h"

namespace paceline {

// Dense operations per second, without the sparsity that data sheets like to include. 0: the device
// does not have the format, or its vendor states no figure.
struct DevicePeaks {
  double bf16 = 0;  // That of float16, too.
  double tf32 = 0;
  double fp32 = 0;  // Of matrix products, where the vendor tells them apart.
};

// Looks for known names in the vendor's name ("NVIDIA H200"), as whole words, ignoring case; the
// longest match wins, so an "H100 PCIe" is not an H100. Unset for an unknown device, and for a
// slice of one.
std::optional<DevicePeaks> PeaksOfDevice(absl::string_view device_name);

// Which float32 operations torch computes in TF32.
struct Tf32Use {
  bool matrices = false;
  bool convolutions = false;
};

// The rate at which a device would do this mix of operations, each at its format's peak. Unset: one
// of the formats has no known peak, or there are no operations.
std::optional<double> PeakFlops(const DevicePeaks& peaks, const Flops& flops, Tf32Use tf32);

// The share of `peak_flops` (per second, > 0) that doing `flops` operations in `seconds` is. Unset
// without operations or time, or when it would be above 1: then the peak or the count is wrong, and
// no figure is better than a wrong one.
std::optional<double> Mfu(double flops, double seconds, double peak_flops);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_DEVICE_PEAK_H_
