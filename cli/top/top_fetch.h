// Fetches what `paceline top` shows, repeatedly and on a separate thread, so that a slow or
// unreachable controller delays no key.
//
// Thread-safe.
#ifndef CLI_TOP_TOP_FETCH_H_
#define CLI_TOP_TOP_FETCH_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/rpc/client.h"
#include "cli/rpc/interrupt.h"
#include "cli/top/top_model.h"
#include "grpcpp/support/status.h"

namespace paceline {

struct TopQuery {
  std::string job;     // Id of the job whose ranks are wanted; empty: all jobs.
  bool ended = false;  // Include ended jobs.
};

// Fetches once. A controller without telemetry provides the rest.
grpc::Status FetchTop(Client& client, const TopQuery& query, TopModel* model);

class TopFetcher {
 public:
  // `on_news` is called on the fetcher's thread when there is something to take; it must be quick.
  TopFetcher(Client::Options options, absl::Duration interval, TopQuery query,
             std::function<void()> on_news);
  // Aborts a call under way.
  ~TopFetcher();

  // Fetches `query` from now on, for the first time at once.
  void Ask(TopQuery query) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the newest model unless it was already taken. While the controller is away: the last
  // known state, with the trouble.
  std::optional<TopModel> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Publish(const TopModel& model, int64_t asked) ABSL_LOCKS_EXCLUDED(mutex_);

  Interrupt stop_;
  Client client_;
  const absl::Duration interval_;
  const std::function<void()> on_news_;

  absl::Mutex mutex_;
  TopQuery query_ ABSL_GUARDED_BY(mutex_);
  int64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // Grows with each Ask.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<TopModel> news_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CLI_TOP_TOP_FETCH_H_
