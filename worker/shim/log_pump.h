// Takes the output of a command and of all that it starts, by a pipe, and writes it as log
// segments.
//
// A trainer of Paceline's rotates its log itself (trainer/log_file.h). Other programs cannot, as
// their children keep the descriptors, so that the shim writes for them. The segments are those
// that daemon/log_files.h reads. What cannot be written is dropped and counted, and a line tells
// how much once there is room: a full disk must not stand in the way of the program.
//
// Thread-compatible. For the shim: no threads, no log of its own.
#ifndef WORKER_SHIM_LOG_PUMP_H_
#define WORKER_SHIM_LOG_PUMP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/shim/confinement.h"

namespace paceline {

class LogPump {
 public:
  // The pipe alone, which holds output back until OpenLog. A segment past `segment_bytes` is full.
  static absl::StatusOr<LogPump> Make(const std::optional<UserIds>& owner, int64_t segment_bytes);
  // Makes the folder `log_dir` and its first segment, both the owner's if there is one. The folder
  // it lies in may be a stranger's: no link is followed in the place of it, and a segment is always
  // a new file.
  absl::Status OpenLog(const std::string& log_dir);
  // Both.
  static absl::StatusOr<LogPump> Open(const std::string& log_dir,
                                      const std::optional<UserIds>& owner, int64_t segment_bytes);
  LogPump(LogPump&& other) noexcept;
  LogPump& operator=(LogPump&&) = delete;
  ~LogPump();

  // The end that the program writes to; closed by CloseInput, once the program has it.
  int input() const { return input_; }
  void CloseInput();

  // Readable when there is output; -1 when nobody can write any more.
  int fd() const { return output_; }

  // Writes what there is, up to 1 MiB. True: there may be more. Requires: OpenLog.
  bool Pump();

 private:
  LogPump(int input, int output, const std::optional<UserIds>& owner, int64_t segment_bytes)
      : input_(input), output_(output), owner_(owner), segment_bytes_(segment_bytes) {}

  bool BeginSegment();
  void Write(absl::string_view data);
  bool WriteAll(absl::string_view data);

  int dir_ = -1;
  int input_;
  int output_;
  std::optional<UserIds> owner_;
  int64_t segment_bytes_;
  int segment_ = -1;
  int64_t base_ = 0;     // Offset of the segment in the log.
  int64_t written_ = 0;  // Bytes of the log.
  int64_t dropped_ = 0;  // Bytes since the last that was written.
  std::string why_dropped_;
  bool in_line_ = false;  // What was written last has no newline at its end.
};

}  // namespace paceline

#endif  // WORKER_SHIM_LOG_PUMP_H_
