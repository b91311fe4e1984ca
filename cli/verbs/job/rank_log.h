// The log of one rank, without losing or repeating a byte when the connection is lost in between,
// and when followed, that of each trainer that takes the rank over, until the job has ended.
#ifndef CLI_VERBS_JOB_RANK_LOG_H_
#define CLI_VERBS_JOB_RANK_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

struct RankLog {
  std::string job_id;
  int rank = 0;
  // Where it begins: so many lines before the end, else with what was written since then, else at
  // the beginning.
  int tail_lines = 0;
  absl::Time since = absl::InfinitePast();
  bool follow = false;
  bool patient = true;  // Else it ends with the first outage.
  // Bytes in order.
  std::function<void(absl::string_view)> each;
  // What follows is the log of another trainer, on this node, from its beginning.
  std::function<void(const std::string& node)> on_trainer;
  // So many bytes were rotated away before the next ones.
  std::function<void(int64_t)> on_gap;
  // The log cannot be had at the moment; told once per outage.
  std::function<void(const grpc::Status&)> on_outage;
};

// OK at the end of the log; CANCELLED when interrupted; else what kept from reading it. A node that
// is not heard of (NodeIsAway) is waited for only while the log is followed and the job goes on.
grpc::Status ReadRankLog(Client& client, const RankLog& log);

// Whether the controller has no word from the node whose log was asked for.
bool NodeIsAway(const grpc::Status& status);

// Cuts a stream of bytes into lines. Of a line that was written over ("\r", as progress bars do)
// only what was written last is kept. Thread-compatible.
class LineSplitter {
 public:
  // The lines that `data` completes, without their newlines. A line beyond 64 KiB is cut.
  std::vector<std::string> Add(absl::string_view data);

  // What came after the last newline, if it is a line that is written over; else empty.
  std::string Draft() const;

  // What came after the last newline.
  std::string Rest();

 private:
  std::string rest_;
  bool is_draft_ = false;
};

// "0,3-5" as 0, 3, 4, 5. Empty when it is not such a list.
std::vector<int> ParseRanks(absl::string_view text);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_RANK_LOG_H_
