#include "common/service_manager.h"

#include <systemd/sd-daemon.h>

#include <cstdint>

#include "absl/time/time.h"

namespace paceline {
namespace {

void KeepAlive(EventLoop& loop, absl::Duration period) {
  ::sd_notify(0, "WATCHDOG=1");
  loop.After(period, [&loop, period] { KeepAlive(loop, period); });
}

}  // namespace

void ReportServing(EventLoop& loop) {
  ::sd_notify(0, "READY=1");
  uint64_t watchdog_us = 0;
  if (::sd_watchdog_enabled(0, &watchdog_us) <= 0) return;
  // Half of the limit, as sd_watchdog_enabled(3) advises.
  const absl::Duration period = absl::Microseconds(watchdog_us) / 2;
  loop.Post([&loop, period] { KeepAlive(loop, period); });
}

void ReportStopping() { ::sd_notify(0, "STOPPING=1"); }

}  // namespace paceline
