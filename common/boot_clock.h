// The clock of leases: goes on while the machine is suspended, unlike EventLoop::Now.
#ifndef COMMON_BOOT_CLOCK_H_
#define COMMON_BOOT_CLOCK_H_

#include "absl/time/time.h"

namespace paceline {

// CLOCK_BOOTTIME, as a point after the machine's start. The same for all processes.
absl::Time BootNow();

}  // namespace paceline

#endif  // COMMON_BOOT_CLOCK_H_
