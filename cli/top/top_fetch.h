// Fetches what `paceline top` shows, again and again, on a thread of its own: a controller that is
// slow or away holds up no key.
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
  std::string job;     // Id of the one whose ranks are wanted; empty: all jobs.
  bool ended = false;  // Jobs that have ended too.
};

// Once. A controller that knows no telemetry tells what it does know.
grpc::Status FetchTop(Client& client, const TopQuery& query, TopModel* model);

class TopFetcher {
 public:
  // `on_news`: something can be taken; from the fetcher's thread, and quick.
  TopFetcher(Client::Options options, absl::Duration interval, TopQuery query,
             std::function<void()> on_news);
  // Ends a call under way.
  ~TopFetcher();

  // From now on this is fetched, first at once.
  void Ask(TopQuery query) ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest, unless it was taken. While the controller is away it is what was known last, with
  // the trouble.
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
