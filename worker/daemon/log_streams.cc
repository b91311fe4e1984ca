#include "worker/daemon/log_streams.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/daemon/log_files.h"

namespace paceline {
namespace {

v1::LogData Piece(int64_t id, int64_t offset) {
  v1::LogData data;
  data.set_id(id);
  data.set_offset(offset);
  return data;
}

v1::LogData End(int64_t id, int64_t offset, const std::string& error) {
  v1::LogData data = Piece(id, offset);
  data.set_end(true);
  data.set_error(error);
  return data;
}

}  // namespace

LogStreams::LogStreams(std::function<std::string(const TrainerId&)> log_dir,
                       std::function<bool(const TrainerId&)> is_alive)
    : log_dir_(std::move(log_dir)), is_alive_(std::move(is_alive)) {}

void LogStreams::Add(const v1::LogRequest& request) {
  const TrainerId trainer{JobId(request.trainer().job_id()),
                          Generation(request.trainer().generation()),
                          Rank(request.trainer().rank())};
  Stream stream{trainer, log_dir_(trainer), std::max<int64_t>(0, request.offset()),
                request.follow()};
  if (streams_.size() >= kMaxStreams) {
    refused_[request.id()] = absl::StrCat("the node already streams ", kMaxStreams, " logs");
  } else if (stream.dir.empty()) {
    refused_[request.id()] = "the node does not keep this log, or not any more";
  } else {
    if (request.tail_lines() > 0) {
      const absl::StatusOr<int64_t> offset = LogFiles(stream.dir).TailOffset(request.tail_lines());
      // A trainer that has not begun to write has no log yet: from its start, then.
      stream.offset = offset.ok() ? *offset : 0;
    }
    streams_[request.id()] = std::move(stream);
  }
}

void LogStreams::Cancel(int64_t id) {
  streams_.erase(id);
  refused_.erase(id);
}

void LogStreams::Clear() {
  streams_.clear();
  refused_.clear();
}

std::optional<v1::LogData> LogStreams::Next() {
  if (!refused_.empty()) {
    const auto first = refused_.extract(refused_.begin());
    return End(first.key(), 0, first.mapped());
  }
  auto stream = streams_.upper_bound(last_);
  for (size_t tried = 0; tried < streams_.size(); ++tried) {
    if (stream == streams_.end()) stream = streams_.begin();
    last_ = stream->first;
    std::optional<v1::LogData> data = NextOf(stream->first, stream->second);
    if (data.has_value()) {
      if (data->end()) streams_.erase(stream);
      return data;
    }
    ++stream;
  }
  return std::nullopt;
}

std::optional<v1::LogData> LogStreams::NextOf(int64_t id, Stream& stream) {
  // Asked before the read: what was written until its end is read then.
  const bool more_to_come = stream.follow && is_alive_(stream.trainer);
  absl::StatusOr<LogFiles::Chunk> chunk = LogFiles(stream.dir).Read(stream.offset);
  if (!chunk.ok()) {
    if (!absl::IsNotFound(chunk.status())) {
      return End(id, stream.offset, std::string(chunk.status().message()));
    }
    chunk = LogFiles::Chunk{stream.offset, ""};
  }
  if (!chunk->data.empty()) {
    v1::LogData data = Piece(id, chunk->offset);
    stream.offset = chunk->offset + static_cast<int64_t>(chunk->data.size());
    data.set_data(std::move(chunk->data));
    return data;
  }
  if (more_to_come) return std::nullopt;
  return End(id, stream.offset, "");
}

}  // namespace paceline
