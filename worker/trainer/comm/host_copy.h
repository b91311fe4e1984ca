// Copies memory of the device to the host's while training goes on.
#ifndef WORKER_TRAINER_COMM_HOST_COPY_H_
#define WORKER_TRAINER_COMM_HOST_COPY_H_

#include <cstddef>

namespace paceline {

// Bytes on the device, and where they go.
struct HostCopyPiece {
  const char* from = nullptr;
  char* to = nullptr;
  size_t bytes = 0;
};

// One copy of several pieces. It begins with the object (Platform::StartHostCopy). What is copied
// and where it goes outlive it.
class HostCopy {
 public:
  virtual ~HostCopy() = default;

  // The training thread, once: what is copied may be changed afterwards, by this thread or, on a
  // GPU, by what is enqueued on its current stream from now on.
  virtual void BeforeChange() = 0;

  // Blocks until the first `bytes` of the pieces, counted one after the other, lie in place. Any
  // thread. Torch's exceptions pass through.
  virtual void Wait(size_t bytes) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_HOST_COPY_H_
