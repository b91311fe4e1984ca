// A CPU that reports the memory of a device.
#ifndef WORKER_TRAINER_TESTING_FAKE_MEMORY_PLATFORM_H_
#define WORKER_TRAINER_TESTING_FAKE_MEMORY_PLATFORM_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Counts as a caching allocator does: what is freed stays reserved, peaks stay until they are
// reset, and so do counts. Nothing is really allocated. Thread-compatible.
class FakeMemoryPlatform : public CpuPlatform {
 public:
  static constexpr int64_t kLarge = 1 << 20;  // Bytes of a block from which it is a large one.

  void Allocate(int64_t bytes) {
    Pool& pool = bytes < kLarge ? small_ : large_;
    pool.active += bytes;
    pool.reserved = std::max(pool.reserved, pool.active);
    RaisePeaks();
  }
  void Free(int64_t bytes) { (bytes < kLarge ? small_ : large_).active -= bytes; }
  // An allocation that was tried again, and one that failed.
  void Retry() { ++retries_; }
  void RunOut() { ++ooms_; }

  std::optional<DeviceMemory> Memory() const override {
    DeviceMemory memory;
    memory.active = small_.active + large_.active;
    memory.active_peak = active_peak_;
    memory.reserved = small_.reserved + large_.reserved;
    memory.reserved_peak = reserved_peak_;
    memory.small_pool = small_.reserved;
    memory.large_pool = large_.reserved;
    memory.capacity = 64 * kLarge;
    memory.alloc_retries = retries_;
    memory.ooms = ooms_;
    memory.small_pool_peak = small_.reserved_peak;
    memory.large_pool_peak = large_.reserved_peak;
    return memory;
  }

  void StartMemoryFigures() override {
    for (Pool* const pool : {&small_, &large_}) pool->reserved = pool->active;
    retries_ = ooms_ = 0;
    ResetMemoryPeaks();
  }

  void ResetMemoryPeaks() override {
    for (Pool* const pool : {&small_, &large_}) pool->reserved_peak = 0;
    active_peak_ = reserved_peak_ = 0;
    RaisePeaks();
  }

 private:
  struct Pool {
    int64_t active = 0;
    int64_t reserved = 0;
    int64_t reserved_peak = 0;
  };

  void RaisePeaks() {
    for (Pool* const pool : {&small_, &large_}) {
      pool->reserved_peak = std::max(pool->reserved_peak, pool->reserved);
    }
    active_peak_ = std::max(active_peak_, small_.active + large_.active);
    reserved_peak_ = std::max(reserved_peak_, small_.reserved + large_.reserved);
  }

  Pool small_;
  Pool large_;
  int64_t active_peak_ = 0;
  int64_t reserved_peak_ = 0;
  int64_t retries_ = 0;
  int64_t ooms_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_FAKE_MEMORY_PLATFORM_H_
