// SIGTERM as a descriptor that can be polled.
//
// A process of our own blocks the signal. In somebody else's, threads exist already and a mask does
// not hold for them: there a handler takes the signal, and the former disposition is kept. A child
// that such a process forks has the handler too; a SIGTERM for the child has the former effect and
// is not ours.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_GENERATION_STOP_SIGNAL_H_
#define WORKER_TRAINER_GENERATION_STOP_SIGNAL_H_

#include <memory>

#include "absl/status/statusor.h"

namespace paceline {

class StopSignal {
 public:
  // Blocks SIGTERM for good, in the calling thread and in those that it starts later. Call it
  // before there are others. Internal: there is no descriptor.
  static absl::StatusOr<std::unique_ptr<StopSignal>> Block();

  // Handles SIGTERM. FailedPrecondition: another one does. Internal: there is no descriptor.
  static absl::StatusOr<std::unique_ptr<StopSignal>> Handle();

  virtual ~StopSignal() = default;  // Restores.
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Readable while there is a signal to take.
  int fd() const { return fd_; }

  // Whether SIGTERM has come since the last call. Does not block.
  virtual bool Take() = 0;

  // Gives SIGTERM the effect that it had before Handle; none more is taken. Does nothing after
  // Block, or when somebody has replaced the handler since.
  virtual void Restore() = 0;

  // Restores, and sends SIGTERM to this process.
  void LetThrough();

 protected:
  explicit StopSignal(int fd) : fd_(fd) {}

 private:
  const int fd_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_STOP_SIGNAL_H_
