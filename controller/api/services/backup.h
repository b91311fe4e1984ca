// Backups of the state while the controller goes on.
//
// One at a time, on a thread of its own and by a connection of its own: SQLite lets a reader see
// the state as it was at its first look while commits go on, so neither the event loop nor the
// store's thread waits. The copy goes to a file beside the state, so that a slow client holds up
// nothing: while it is read, the store's log could not be written back. That file has no name any
// more when it is sent. Memory stays at some megabytes, whatever the size of the state. A client
// that does not take a message within the patience of CallLimits loses its stream, so that others
// get their turn.
#ifndef CONTROLLER_API_SERVICES_BACKUP_H_
#define CONTROLLER_API_SERVICES_BACKUP_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/api/admission/call_limits.h"
#include "proto/admin.pb.h"

namespace paceline {

// Thread-safe.
class Backups {
 public:
  // Of this SQLite file; empty: the state is in none. Removes what a backup left that was killed.
  // `limits` outlives this.
  Backups(std::string state_file, const CallLimits* limits);
  ~Backups();  // When gRPC has ended all streams.

  // The stream of one call.
  grpc::ServerWriteReactor<v1::BackupChunk>* Begin(grpc::CallbackServerContext* context);

 private:
  const std::string state_file_;
  const CallLimits* const limits_;
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // Of the newest one.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_BACKUP_H_
