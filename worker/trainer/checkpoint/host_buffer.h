// Memory of the host that a shard is copied to: page-aligned, kept and used again.
//
// In huge pages where the system has them: 512 MiB then take 0.07 s to be put in place instead of
// 0.3 s.
#ifndef WORKER_TRAINER_CHECKPOINT_HOST_BUFFER_H_
#define WORKER_TRAINER_CHECKPOINT_HOST_BUFFER_H_

#include <cstddef>

#include "worker/trainer/comm/platform.h"

namespace paceline {

class HostBuffer {
 public:
  // At least so many bytes, fit for copies of the platform, which outlives this. On a CPU its
  // pages come when they are touched. Throws std::bad_alloc. Any thread.
  HostBuffer(Platform& platform, size_t bytes);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }

  // Puts all pages in place.
  void Touch();

 private:
  Platform& platform_;
  const size_t size_;
  char* const data_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_HOST_BUFFER_H_
