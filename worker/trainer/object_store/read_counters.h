// What is counted of reads of objects, for the figures of a rank.
#ifndef WORKER_TRAINER_OBJECT_STORE_READ_COUNTERS_H_
#define WORKER_TRAINER_OBJECT_STORE_READ_COUNTERS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Thread-safe.
class ReadCounters {
 public:
  // Bytes of an object have come from its store.
  void AddFetched(uint64_t bytes) { fetched_bytes_ += static_cast<int64_t>(bytes); }
  // A request is made again.
  void AddRetry() { ++retries_; }
  // A read of a block that was there; of one for which the reader waited so long.
  void AddCached() { ++cached_reads_; }
  void AddWaited(absl::Duration wait) {
    ++waited_reads_;
    wait_ns_ += std::max(absl::ToInt64Nanoseconds(wait), int64_t{0});
  }

  ObjectFigures figures() const {
    ObjectFigures figures;
    figures.fetched_bytes = fetched_bytes_;
    figures.retries = retries_;
    figures.cached_reads = cached_reads_;
    figures.waited_reads = waited_reads_;
    figures.wait_s = static_cast<double>(wait_ns_.load()) * 1e-9;
    return figures;
  }

 private:
  std::atomic<int64_t> fetched_bytes_{0};
  std::atomic<int64_t> retries_{0};
  std::atomic<int64_t> cached_reads_{0};
  std::atomic<int64_t> waited_reads_{0};
  std::atomic<int64_t> wait_ns_{0};
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_READ_COUNTERS_H_
