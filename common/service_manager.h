// What a daemon tells systemd, if systemd has started it as a service with Type=notify and
// WatchdogSec: that it serves, that its event loop turns, that it ends. Otherwise nothing happens.
#ifndef COMMON_SERVICE_MANAGER_H_
#define COMMON_SERVICE_MANAGER_H_

#include "common/event_loop.h"

namespace paceline {

// The daemon serves. From now on `loop`, while it runs, reports twice in each WatchdogSec; systemd
// kills a daemon whose loop is stuck, and starts it again. From any thread, once for each loop that
// takes over from the one before.
void ReportServing(EventLoop& loop);

// The daemon has been asked to end, and does so within the unit's TimeoutStopSec. From any thread.
void ReportStopping();

}  // namespace paceline

#endif  // COMMON_SERVICE_MANAGER_H_
