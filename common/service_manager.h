// Reports a daemon's state to systemd, if it runs as a service with Type=notify and WatchdogSec:
// that it serves, that its event loop turns, that it is ending. Otherwise does nothing.
#ifndef COMMON_SERVICE_MANAGER_H_
#define COMMON_SERVICE_MANAGER_H_

#include "common/event_loop.h"

namespace paceline {

// The daemon serves. From now on `loop`, while it runs, reports twice per WatchdogSec; systemd
// restarts a daemon whose loop is stuck. Any thread. Call it once for each loop that takes over
// from the previous one.
void ReportServing(EventLoop& loop);

// The daemon was asked to end and will do so within the unit's TimeoutStopSec. Any thread.
void ReportStopping();

}  // namespace paceline

#endif  // COMMON_SERVICE_MANAGER_H_
