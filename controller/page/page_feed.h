// Sends the newest state of the cluster to everybody who has the page open, as server-sent events.
//
// A state replaces the one before: a slow reader misses some. At most one state waits, and all
// readers share it.
//
// Thread-safe.
#ifndef CONTROLLER_PAGE_PAGE_FEED_H_
#define CONTROLLER_PAGE_PAGE_FEED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http_server.h"

namespace paceline {

// Interval of comments on an idle stream, by which the server notices that a reader is gone.
inline constexpr absl::Duration kPageAlive = absl::Seconds(10);

class PageFeed {
 public:
  struct State {
    std::string cluster;                      // JSON on one line.
    std::map<std::string, std::string> jobs;  // JSON of each job that somebody follows, by id.
  };

  explicit PageFeed(absl::Duration alive = kPageAlive) : alive_(alive) {}

  // Adds a reader. `job`: id of the job that it follows; empty: none. The feed outlives the stream.
  std::unique_ptr<HttpStream> Listen(std::string job);

  // Whether there are readers, and which jobs they follow.
  bool HasReaders() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::set<std::string> Jobs() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Publish(State state) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the state, which is no longer kept up to date.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Reader;

  const absl::Duration alive_;
  mutable absl::Mutex mutex_;
  std::multiset<std::string> readers_ ABSL_GUARDED_BY(mutex_);  // Job of each reader.
  std::shared_ptr<const State> state_ ABSL_GUARDED_BY(mutex_);  // Null: none.
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;                 // Version of state_.
};

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_FEED_H_
