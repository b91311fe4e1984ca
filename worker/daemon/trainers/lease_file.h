// Keeps the lease for a later daemon in `<runtime dir>/lease`, which a reboot of the machine
// deletes.
#ifndef WORKER_DAEMON_TRAINERS_LEASE_FILE_H_
#define WORKER_DAEMON_TRAINERS_LEASE_FILE_H_

#include <string>

#include "worker/daemon/core/lease.h"

namespace paceline {

// Reads the kept lease; one that is not held when the file is missing or invalid.
Lease ReadLease(const std::string& runtime_dir);

// Replaces the file, or removes it when no lease is held. Failures are logged.
void KeepLease(const std::string& runtime_dir, const Lease& lease);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_LEASE_FILE_H_
