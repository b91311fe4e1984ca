// Reads the output of a command and of all its children from a pipe and writes it as log segments.
//
// Paceline's own trainer rotates its log itself (worker/trainer/report/log_file.h). Other programs
// cannot, since their children keep the descriptors, so the shim writes for them, in the segments
// that worker/daemon/logs/log_files.h reads. Output that cannot be written is dropped and counted,
// and a line says how much once there is room: a full disk must not block the program.
//
// Thread-compatible. For the shim: starts no threads and does not log.
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
  // Makes the pipe, in which output waits for OpenLog. A segment past `segment_bytes` is full.
  static absl::StatusOr<LogPump> Make(const std::optional<UserIds>& owner, int64_t segment_bytes);
  // Makes the folder `log_dir` and its first segment, owned by the owner if one is set. A stranger
  // may own the parent folder: no link is followed in place of `log_dir`, and each segment is a new
  // file.
  absl::Status OpenLog(const std::string& log_dir);
  // Calls Make and OpenLog.
  static absl::StatusOr<LogPump> Open(const std::string& log_dir,
                                      const std::optional<UserIds>& owner, int64_t segment_bytes);
  LogPump(LogPump&& other) noexcept;
  LogPump& operator=(LogPump&&) = delete;
  ~LogPump();

  // The end that the program writes to. Call CloseInput once the program has it.
  int input() const { return input_; }
  void CloseInput();

  // Becomes readable when there is output; -1 when no writer is left.
  int fd() const { return output_; }

  // Writes waiting output, up to 1 MiB. True: there may be more. Requires: OpenLog.
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
  int64_t base_ = 0;     // Offset of the current segment in the log.
  int64_t written_ = 0;  // Total bytes of the log.
  int64_t dropped_ = 0;  // Bytes dropped since the last successful write.
  std::string why_dropped_;
  bool in_line_ = false;  // The last byte written was not a newline.
};

}  // namespace paceline

#endif  // WORKER_SHIM_LOG_PUMP_H_
