// Copies memory on a thread of its own. The training thread helps when it would otherwise wait.
#ifndef WORKER_TRAINER_COMM_CPU_HOST_COPY_H_
#define WORKER_TRAINER_COMM_CPU_HOST_COPY_H_

#include <cstddef>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/host_copy.h"

namespace paceline {

class CpuHostCopy : public HostCopy {
 public:
  explicit CpuHostCopy(const std::vector<HostCopyPiece>& pieces);
  ~CpuHostCopy() override;

  void BeforeChange() override;
  void Wait(size_t bytes) override;

 private:
  struct Chunk {
    HostCopyPiece piece;
    size_t end = 0;  // Total bytes up to the end of this chunk.
    bool copied = false;
  };

  // Copies chunks until none is left.
  void Work();
  size_t BytesInPlace() const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::vector<Chunk> chunks_;  // `copied` of each: guarded by mu_.
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t first_missing_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CPU_HOST_COPY_H_
