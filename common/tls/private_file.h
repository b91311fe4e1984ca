// Small files with keys and certificates, written whole; only a key's owner may read it.
//
// Thread-safe for different paths.
#ifndef COMMON_TLS_PRIVATE_FILE_H_
#define COMMON_TLS_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Reads a whole file of at most 1 MiB. NotFound: it is missing; PermissionDenied; InvalidArgument:
// it is larger.
absl::StatusOr<std::string> ReadWhole(const std::string& path);

// Like ReadWhole; PermissionDenied also when everybody may read the file, or its group write it.
absl::StatusOr<std::string> ReadPrivate(const std::string& path);

// Like ReadWhole; PermissionDenied also when others than its owner have access, InvalidArgument
// also when it is no regular file.
absl::StatusOr<std::string> ReadOwnersOnly(const std::string& path);

// Writes all or nothing, mode 0600 or 0644; new folders get 0700. Errors of AtomicFile.
absl::Status WritePrivate(const std::string& path, absl::string_view text);
absl::Status WritePublic(const std::string& path, absl::string_view text);

// OK if it is missing.
absl::Status RemoveFile(const std::string& path);

}  // namespace paceline

#endif  // COMMON_TLS_PRIVATE_FILE_H_
