// Copies device memory to the host while training goes on.
#ifndef WORKER_TRAINER_COMM_HOST_COPY_H_
#define WORKER_TRAINER_COMM_HOST_COPY_H_

#include <cstddef>

namespace paceline {

// Bytes on the device and their destination.
struct HostCopyPiece {
  const char* from = nullptr;
  char* to = nullptr;
  size_t bytes = 0;
};

// A copy of several pieces, begun by Platform::StartHostCopy. Sources and destinations must outlive
// it.
class HostCopy {
 public:
  virtual ~HostCopy() = default;

  // Called once by the training thread: afterwards the sources may be changed, by this thread or,
  // on a GPU, by later work on its current stream.
  virtual void BeforeChange() = 0;

  // Blocks until the first `bytes` of all pieces together are copied. Any thread. Torch's
  // exceptions pass through.
  virtual void Wait(size_t bytes) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_HOST_COPY_H_
