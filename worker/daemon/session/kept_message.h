// Keeps messages in files of a trainer dir for a later daemon.
#ifndef WORKER_DAEMON_SESSION_KEPT_MESSAGE_H_
#define WORKER_DAEMON_SESSION_KEPT_MESSAGE_H_

#include <google/protobuf/message_lite.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/log.h"
#include "worker/shim/small_file.h"

namespace paceline {

// Reads the message in the file; nothing when it is missing or damaged.
template <typename Message>
std::optional<Message> ReadMessage(const std::string& path) {
  const absl::StatusOr<std::optional<std::string>> text = ReadSmallFile(path);
  Message message;
  if (!text.ok() || !text->has_value() || !message.ParseFromString(**text)) return std::nullopt;
  return message;
}

// On failure goes on: only a later daemon will miss the message.
inline void KeepMessage(const std::string& path, const google::protobuf::MessageLite& message) {
  const absl::Status status = WriteSmallFile(path, message.SerializeAsString());
  if (!status.ok()) PACELINE_LOG(ERROR) << "not_kept reason=\"" << status.message() << "\"";
}

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_KEPT_MESSAGE_H_
