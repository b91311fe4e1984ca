// The controller's log requests. Each is answered once: with what the log has at the requested
// offset or, if it follows a living trainer, as soon as the log has more.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_LOGS_LOG_REQUESTS_H_
#define WORKER_DAEMON_LOGS_LOG_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "proto/worker.pb.h"

namespace paceline {

class LogRequests {
 public:
  static constexpr size_t kMaxWaiting = 1024;  // The oldest requests beyond this are refused.

  struct Place {
    std::string dir;    // Directory of the trainer's segments.
    std::string marks;  // File of the log's marks (log_marks.h).
  };

  // `place` finds a trainer's log; it returns nothing when the node does not keep it. `is_alive`
  // says whether the trainer may still write.
  LogRequests(std::function<std::optional<Place>(const TrainerId&)> place,
              std::function<bool(const TrainerId&)> is_alive);

  // `now` is by the node's clock, like the log's marks (log_marks.h).
  void Add(const v1::LogRequest& request, absl::Time now);
  void Cancel(int64_t id);
  // Drops all requests. Call when the session ends.
  void Clear();

  // The next answer; nothing when all requests wait for more output.
  std::optional<v1::LogData> Next();

  bool empty() const { return requests_.empty(); }

 private:
  struct Request {
    TrainerId trainer;
    int64_t offset = 0;
    int tail_lines = 0;
    bool follow = false;
    absl::Time since = absl::InfinitePast();
  };

  std::optional<v1::LogData> Answer(int64_t id, const Request& request) const;

  // Constant.
  const std::function<std::optional<Place>(const TrainerId&)> place_;
  const std::function<bool(const TrainerId&)> is_alive_;

  // Owned by the loop.
  std::map<int64_t, Request> requests_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_LOGS_LOG_REQUESTS_H_
