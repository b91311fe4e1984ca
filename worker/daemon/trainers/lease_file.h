// The lease kept for a later daemon: `<runtime dir>/lease`, which does not outlive the machine's
// start either.
#ifndef WORKER_DAEMON_TRAINERS_LEASE_FILE_H_
#define WORKER_DAEMON_TRAINERS_LEASE_FILE_H_

#include <string>

#include "worker/daemon/core/lease.h"

namespace paceline {

// One that is not held when there is none, or none that can be understood.
Lease ReadLease(const std::string& runtime_dir);

// Replaces it; removes the file when nothing is held. What fails is logged.
void KeepLease(const std::string& runtime_dir, const Lease& lease);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_LEASE_FILE_H_
