// Clients that watch jobs or nodes, each over a connection of its own. Their messages are counted
// but not parsed, because only the controller's work matters here.
//
// Of ten clients, four watch one job, four all nodes, two all jobs.
#ifndef BENCH_LOAD_WATCHERS_H_
#define BENCH_LOAD_WATCHERS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

class Watchers {
 public:
  Watchers(std::string controller, std::shared_ptr<grpc::ChannelCredentials> credentials)
      : controller_(std::move(controller)), credentials_(std::move(credentials)) {}
  // Requires: stopped.
  ~Watchers() = default;
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

  // Starts `count` watchers; those that watch one job are spread over `jobs`.
  void Start(int count, const std::vector<std::string>& jobs);
  // Restarts those that have ended. Call it now and then.
  void Renew() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all; returns when they are gone.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  void ClearFigures() { events_ = bytes_ = ended_ = 0; }
  int64_t events() const { return events_; }
  int64_t bytes() const { return bytes_; }
  // Number of streams that ended without Stop().
  int64_t ended() const { return ended_; }

 private:
  class Stream;
  struct Watch {
    std::string method;
    std::string request;       // Serialized.
    Stream* stream = nullptr;  // Until OnDone. Null: ended.
    // The channel of this stream or of the previous one; see SimulatedNode::channel_.
    std::shared_ptr<grpc::Channel> channel;
  };

  // Deletes the stream.
  void OnDone(size_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string controller_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::atomic<int64_t> events_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> ended_{0};

  absl::Mutex mutex_;
  std::vector<Watch> watches_ ABSL_GUARDED_BY(mutex_);
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline

#endif  // BENCH_LOAD_WATCHERS_H_
