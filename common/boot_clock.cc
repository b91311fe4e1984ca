#include "common/boot_clock.h"

#include <time.h>

namespace paceline {

absl::Time BootNow() {
  timespec now;
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace paceline
