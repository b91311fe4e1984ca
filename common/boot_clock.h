// The clock of leases: unlike EventLoop::Now, it goes on while the machine is suspended.
#ifndef COMMON_BOOT_CLOCK_H_
#define COMMON_BOOT_CLOCK_H_

#include "absl/time/time.h"

namespace paceline {

// CLOCK_BOOTTIME as a point in time, the same for all processes. It starts when the machine does.
absl::Time BootNow();

}  // namespace paceline

#endif  // COMMON_BOOT_CLOCK_H_
