#include "cli/verbs/job/rank_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/rpc/error_text.h"
#include "cli/rpc/resumption.h"
#include "cli/view/job/job_text.h"
#include "common/core/last_written.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr size_t kLongestLine = 64 * 1024;
constexpr int kMostRanks = 1 << 16;

// An older controller does not name the trainer of a chunk, and ends the stream with it.
bool IsFromAnother(const v1::StreamLogsRequest& request, const v1::LogChunk& chunk) {
  if (!request.has_trainer() || !chunk.has_trainer()) return false;
  return chunk.trainer().generation() != request.trainer().generation() ||
         chunk.trainer().rank() != request.trainer().rank();
}

// Whether nothing more will come when the node is back, as far as known.
bool IsOver(Client& client, const RankLog& log) {
  if (!log.follow) return true;
  v1::GetJobRequest request;
  request.set_job(log.job_id);
  v1::Job job;
  return client.Call(methods::kJobGet, request, &job).ok() && HasEnded(job.state());
}

}  // namespace

bool NodeIsAway(const grpc::Status& status) { return ErrorReason(status) == "NODE_UNREACHABLE"; }

grpc::Status ReadRankLog(Client& client, const RankLog& log) {
  v1::StreamLogsRequest request;
  request.set_job(log.job_id);
  request.set_rank(log.rank);
  request.set_tail_lines(log.tail_lines);
  request.set_follow(log.follow);
  request.set_follow_rank(log.follow);
  const bool from_beginning = log.tail_lines == 0 && log.since == absl::InfinitePast();
  bool begun = false;
  int64_t next = 0;
  Resumption resumption(client, absl::InfiniteFuture(), log.on_outage);
  grpc::Status status;
  do {
    // By the node's clock, which may differ from ours.
    if (!begun && log.since != absl::InfinitePast()) {
      request.set_since_s(absl::ToDoubleSeconds(absl::Now() - log.since));
    }
    status = client.Stream(methods::kJobStreamLogs, request, [&](const v1::LogChunk& chunk) {
      resumption.Arrived();
      absl::string_view data = chunk.data();
      if (IsFromAnother(request, chunk)) {
        log.on_trainer(chunk.node());
        next = 0;
      }
      // The log's start is only known now; what was rotated away before it is no gap.
      if (!begun && !from_beginning) next = chunk.offset();
      begun = true;
      if (chunk.offset() > next) log.on_gap(chunk.offset() - next);
      if (chunk.offset() < next) {
        data.remove_prefix(std::min<size_t>(data.size(), next - chunk.offset()));
      }
      if (!data.empty()) log.each(data);
      next = std::max<int64_t>(next, chunk.offset() + static_cast<int64_t>(chunk.data().size()));
      request.set_offset(next);
      if (chunk.has_trainer()) {
        *request.mutable_trainer() = chunk.trainer();
        request.set_node(chunk.node());
      }
      request.clear_tail_lines();
      request.clear_since_s();
      return true;
    });
    if (!NodeIsAway(status)) continue;
    if (IsOver(client, log)) break;
    resumption.Answered();
  } while (log.patient && resumption.Again(&status));
  return status;
}

std::vector<std::string> LineSplitter::Add(absl::string_view data) {
  std::vector<std::string> lines;
  rest_.append(data.data(), data.size());
  size_t begin = 0;
  while (true) {
    const size_t end = rest_.find('\n', begin);
    if (end == std::string::npos) break;
    lines.emplace_back(LastWritten(absl::string_view(rest_).substr(begin, end - begin)));
    begin = end + 1;
  }
  if (begin > 0) is_draft_ = false;
  rest_.erase(0, begin);
  is_draft_ = is_draft_ || absl::StrContains(rest_, '\r');
  // Keeps the "\r" at the end: what follows may overwrite the line.
  rest_.erase(0, static_cast<size_t>(LastWritten(rest_).data() - rest_.data()));
  while (rest_.size() >= kLongestLine) {
    lines.push_back(rest_.substr(0, kLongestLine));
    rest_.erase(0, kLongestLine);
  }
  return lines;
}

std::string LineSplitter::Draft() const { return is_draft_ ? std::string(LastWritten(rest_)) : ""; }

std::string LineSplitter::Rest() {
  is_draft_ = false;
  const std::string rest = std::exchange(rest_, "");
  return std::string(LastWritten(rest));
}

std::vector<int> ParseRanks(absl::string_view text) {
  std::vector<int> ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first || last >= kMostRanks) {
      return {};
    }
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace paceline
