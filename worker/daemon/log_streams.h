// Log requests of the controller, answered a chunk at a time when there is room to send one.
//
// A request that follows ends when its trainer has ended and all was sent; another one ends at
// the log's present end. All end with the session.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_LOG_STREAMS_H_
#define WORKER_DAEMON_LOG_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/core/ids.h"
#include "proto/worker.pb.h"

namespace paceline {

class LogStreams {
 public:
  static constexpr size_t kMaxStreams = 256;  // More are refused.

  // `log_dir`: where the segments of a trainer lie; empty when the node does not know it.
  // `is_alive`: whether it may still write.
  LogStreams(std::function<std::string(const TrainerId&)> log_dir,
             std::function<bool(const TrainerId&)> is_alive);

  void Add(const v1::LogRequest& request);
  void Cancel(int64_t id);
  void Clear();

  // The next piece of some stream, in turn; nothing when all wait for more output.
  std::optional<v1::LogData> Next();

  bool empty() const { return streams_.empty() && refused_.empty(); }

 private:
  struct Stream {
    TrainerId trainer;
    std::string dir;
    int64_t offset = 0;
    bool follow = false;
  };

  std::optional<v1::LogData> NextOf(int64_t id, Stream& stream);

  // Constant.
  const std::function<std::string(const TrainerId&)> log_dir_;
  const std::function<bool(const TrainerId&)> is_alive_;

  // Owned by the loop.
  std::map<int64_t, Stream> streams_;
  std::map<int64_t, std::string> refused_;  // Answers with an error that wait to be sent.
  int64_t last_ = 0;                        // The stream that had its turn last.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_LOG_STREAMS_H_
