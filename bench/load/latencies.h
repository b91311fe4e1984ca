// Durations that many threads measure, and their quantiles.
//
// Thread-safe.
#ifndef BENCH_LOAD_LATENCIES_H_
#define BENCH_LOAD_LATENCIES_H_

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

class Latencies {
 public:
  void Add(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    milliseconds_.push_back(static_cast<float>(absl::ToDoubleMilliseconds(duration)));
  }

  void Clear() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    milliseconds_.clear();
  }

  // {"count", "p50", "p99", "max"}, in milliseconds; without any only the count.
  nlohmann::json Summary() const ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<float> sorted;
    {
      absl::MutexLock lock(&mutex_);
      sorted = milliseconds_;
    }
    nlohmann::json summary;
    summary["count"] = sorted.size();
    if (sorted.empty()) return summary;
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double share) {
      return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
    };
    summary["p50"] = quantile(0.5);
    summary["p99"] = quantile(0.99);
    summary["max"] = sorted.back();
    return summary;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<float> milliseconds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // BENCH_LOAD_LATENCIES_H_
