// Reads the log of one rank without losing or repeating a byte when the connection breaks. When it
// is followed: also the logs of trainers that take the rank over, until the job has ended.
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
  // Where to start: so many lines before the end, else at what was written since `since`, else at
  // the beginning.
  int tail_lines = 0;
  absl::Time since = absl::InfinitePast();
  bool follow = false;
  bool patient = true;  // Else it ends with the first outage.
  // Gets the bytes in order.
  std::function<void(absl::string_view)> each;
  // What follows is the log of another trainer, on this node, from its beginning.
  std::function<void(const std::string& node)> on_trainer;
  // This many bytes before the next ones were rotated away.
  std::function<void(int64_t)> on_gap;
  // Called once per outage, when the log cannot be had at the moment.
  std::function<void(const grpc::Status&)> on_outage;
};

// Returns OK at the end of the log; CANCELLED if interrupted; else why it could not be read. Waits
// for an unreachable node (NodeIsAway) only while the log is followed and the job continues.
grpc::Status ReadRankLog(Client& client, const RankLog& log);

// Whether the controller does not hear from the node whose log was asked for.
bool NodeIsAway(const grpc::Status& status);

// Splits a stream of bytes into lines. Of a line that was overwritten ("\r", as by progress bars)
// only the last version is kept. Thread-compatible.
class LineSplitter {
 public:
  // Returns the lines that `data` completes, without newlines. Lines beyond 64 KiB are cut.
  std::vector<std::string> Add(absl::string_view data);

  // The text after the last newline if that line is being overwritten; else empty.
  std::string Draft() const;

  // The text after the last newline.
  std::string Rest();

 private:
  std::string rest_;
  bool is_draft_ = false;
};

// Parses "0,3-5" as 0, 3, 4, 5. Empty if the text is no such list.
std::vector<int> ParseRanks(absl::string_view text);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_RANK_LOG_H_
