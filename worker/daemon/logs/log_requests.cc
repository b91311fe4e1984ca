#include "worker/daemon/logs/log_requests.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/daemon/logs/log_marks.h"

namespace paceline {
namespace {

v1::LogData Error(int64_t id, const std::string& error) {
  v1::LogData data;
  data.set_id(id);
  data.set_end(true);
  data.set_error(error);
  return data;
}

// Whether the log has nothing at or after `offset`.
bool EndsAt(const LogFiles& log, int64_t offset) {
  const absl::StatusOr<LogFiles::Chunk> next = log.Read(offset);
  return !next.ok() || next->data.empty();
}

}  // namespace

LogRequests::LogRequests(std::function<std::optional<Place>(const TrainerId&)> place,
                         std::function<bool(const TrainerId&)> is_alive)
    : place_(std::move(place)), is_alive_(std::move(is_alive)) {}

void LogRequests::Add(const v1::LogRequest& request, absl::Time now) {
  const TrainerId trainer{JobId(request.trainer().job_id()),
                          Generation(request.trainer().generation()),
                          Rank(request.trainer().rank())};
  const absl::Time since =
      request.since_s() > 0 ? now - absl::Seconds(request.since_s()) : absl::InfinitePast();
  requests_[request.id()] = {trainer, std::max<int64_t>(0, request.offset()), request.tail_lines(),
                             request.follow(), since};
}

void LogRequests::Cancel(int64_t id) { requests_.erase(id); }

void LogRequests::Clear() { requests_.clear(); }

std::optional<v1::LogData> LogRequests::Next() {
  if (requests_.size() > kMaxWaiting) {
    const auto oldest = requests_.extract(requests_.begin());
    return Error(oldest.key(), "the node has too many log requests");
  }
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    std::optional<v1::LogData> data = Answer(request->first, request->second);
    if (!data.has_value()) continue;
    requests_.erase(request);
    return data;
  }
  return std::nullopt;
}

std::optional<v1::LogData> LogRequests::Answer(int64_t id, const Request& request) const {
  const std::optional<Place> place = place_(request.trainer);
  if (!place.has_value()) return Error(id, "the node does not keep this log, or not any more");
  const LogFiles log(place->dir);
  // Asked before the read: if the trainer has ended by now, the read gets all its output.
  const bool more_to_come = request.follow && is_alive_(request.trainer);
  int64_t offset = request.offset;
  if (request.tail_lines > 0) {
    offset = log.TailOffset(request.tail_lines).value_or(0);
  } else if (request.since != absl::InfinitePast()) {
    offset = LogMarks(place->dir, place->marks).OffsetAfter(request.since);
  }
  absl::StatusOr<LogFiles::Chunk> chunk = log.Read(offset);
  if (absl::IsNotFound(chunk.status())) chunk = LogFiles::Chunk{offset, ""};  // Nothing yet.
  if (!chunk.ok()) return Error(id, std::string(chunk.status().message()));
  if (chunk->data.empty() && more_to_come) return std::nullopt;
  v1::LogData data;
  data.set_id(id);
  data.set_offset(chunk->offset);
  data.set_end(!more_to_come &&
               EndsAt(log, chunk->offset + static_cast<int64_t>(chunk->data.size())));
  data.set_data(std::move(chunk->data));
  return data;
}

}  // namespace paceline
