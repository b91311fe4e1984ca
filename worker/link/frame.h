// Messages over the Unix socket between a daemon and its trainers: each is preceded by its
// length, four bytes little-endian, at most kMaxFrameBytes.
//
// Knows bytes only, so both the daemon (gRPC's protobuf) and the trainer (torch) can use it.
#ifndef WORKER_LINK_FRAME_H_
#define WORKER_LINK_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr uint32_t kMaxFrameBytes = 1 << 20;

// Returns `payload` preceded by its length. Requires: payload.size() <= kMaxFrameBytes.
std::string EncodeFrame(absl::string_view payload);

// Cuts a stream of bytes into payloads. Thread-compatible.
class FrameDecoder {
 public:
  void Append(absl::string_view bytes);
  // Returns the next whole payload; nothing when more bytes are needed. InvalidArgument when a
  // length exceeds the limit; the stream is unusable then.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  std::string buffer_;
  size_t taken_ = 0;  // Bytes at the front of buffer_ already returned.
};

}  // namespace paceline

#endif  // WORKER_LINK_FRAME_H_
