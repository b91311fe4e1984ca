// Backups of the state while the controller goes on.
//
// There is one backup at a time, with its own thread and its own database connection: SQLite lets a
// reader see the state as of its first read while commits continue, so neither the event loop nor
// the store's thread waits. The copy first goes to a file beside the state, since a slow client
// reading the state itself would keep the store's log from being written back. The file's name is
// removed before it is sent. Memory stays at some megabytes for any size of state. A client that
// does not take a message within the patience of CallLimits loses its stream, so that others get
// their turn.
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
  // Makes backups of this SQLite file; empty: the state is in no file. Removes what an interrupted
  // backup left. `limits` outlives this.
  Backups(std::string state_file, const CallLimits* limits);
  ~Backups();  // Requires: gRPC has ended all streams.

  // Returns the stream of one call.
  grpc::ServerWriteReactor<v1::BackupChunk>* Begin(grpc::CallbackServerContext* context);

 private:
  const std::string state_file_;
  const CallLimits* const limits_;
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // Thread of the newest backup.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_BACKUP_H_
