// Hands the newest state of the cluster to everybody who looks at the page, as server-sent events.
//
// A state replaces the one before: a reader that is slow misses some, and what waits for it is one
// state, which all readers share.
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

// With nothing new a stream sends a comment so often: the server finds out that a reader is gone.
inline constexpr absl::Duration kPageAlive = absl::Seconds(10);

class PageFeed {
 public:
  struct State {
    std::string cluster;                      // JSON on one line.
    std::map<std::string, std::string> jobs;  // The same of each job that is looked at, by id.
  };

  explicit PageFeed(absl::Duration alive = kPageAlive) : alive_(alive) {}

  // A reader; `job`: the id of the one it looks at, empty: none. The feed outlives it.
  std::unique_ptr<HttpStream> Listen(std::string job);

  // Whether anybody listens, and the jobs they look at.
  bool HasReaders() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::set<std::string> Jobs() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Publish(State state) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the state: it is not kept up to date any more.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Reader;

  const absl::Duration alive_;
  mutable absl::Mutex mutex_;
  std::multiset<std::string> readers_ ABSL_GUARDED_BY(mutex_);  // The job of each.
  std::shared_ptr<const State> state_ ABSL_GUARDED_BY(mutex_);  // Null: none.
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;                 // Of the state.
};

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_FEED_H_
