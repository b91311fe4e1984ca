// For tests: how much memory tensors take.
#ifndef WORKER_TRAINER_MODEL_TESTING_MEMORY_COUNT_H_
#define WORKER_TRAINER_MODEL_TESTING_MEMORY_COUNT_H_

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace paceline {

// Bytes of living tensors, as the allocator reports them while a c10::DebugInfoGuard holds this.
class MemoryCount : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, int64_t alloc_size, size_t /*total_allocated*/,
                         size_t /*total_reserved*/, c10::Device /*device*/) override {
    live += alloc_size;
    peak = std::max(peak, live);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t live = 0;
  int64_t peak = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_TESTING_MEMORY_COUNT_H_
