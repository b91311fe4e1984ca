// Counters of all simulated nodes together, and times at which nodes were lost and came back.
//
// Thread-safe.
#ifndef BENCH_LOAD_TOTALS_H_
#define BENCH_LOAD_TOTALS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bench/load/latencies.h"

namespace paceline {

struct Totals {
  Latencies heartbeats;  // From the report to the Lease that answers it.

  // Records of steps. Each record that was sent is confirmed by the answer to a later report, or
  // cut off with its connection; then it may or may not have been taken.
  std::atomic<int64_t> records_sent{0};
  std::atomic<int64_t> records_confirmed{0};
  std::atomic<int64_t> records_cut{0};
  std::atomic<int64_t> records_dropped{0};  // By a node whose buffer was full.

  std::atomic<int64_t> reports{0};
  std::atomic<int64_t> connected{0};  // Nodes, now.
  std::atomic<int64_t> running{0};    // Trainers, now.
  std::atomic<int64_t> losses{0};     // Of connections.
};

// One outage of the controller: all nodes are lost, and come back. Times are steady.
class Storm {
 public:
  // Resets the counts.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    first_lost_ = absl::InfiniteFuture();
    last_back_ = absl::InfinitePast();
    dials_.clear();
  }
  void Lost(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    first_lost_ = std::min(first_lost_, now);
  }
  void Dialled(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++dials_[absl::ToUnixMillis(now) / kBucketMillis];
  }
  void Back(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    last_back_ = std::max(last_back_, now);
  }
  bool begun() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return first_lost_ != absl::InfiniteFuture();
  }

  // {"lost", "back": seconds of the monotonic clock, "dials": [[begin of an interval of 100 ms in
  // seconds of that clock, dials in it], ...] for each interval with dials}.
  nlohmann::json Summary() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    nlohmann::json dials = nlohmann::json::array();
    for (const auto& [bucket, count] : dials_) {
      dials.push_back(
          nlohmann::json::array({static_cast<double>(bucket * kBucketMillis) / 1e3, count}));
    }
    return {{"lost", absl::ToDoubleSeconds(first_lost_ - absl::UnixEpoch())},
            {"back", absl::ToDoubleSeconds(last_back_ - absl::UnixEpoch())},
            {"dials", std::move(dials)}};
  }

 private:
  static constexpr int64_t kBucketMillis = 100;

  mutable absl::Mutex mutex_;
  absl::Time first_lost_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_back_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::map<int64_t, int64_t> dials_ ABSL_GUARDED_BY(mutex_);  // By time.
};

}  // namespace paceline

#endif  // BENCH_LOAD_TOTALS_H_
