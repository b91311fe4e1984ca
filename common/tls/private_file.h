// Files of keys and certificates: small, whole, and keys for their owner only.
//
// Thread-safe for different paths.
#ifndef COMMON_TLS_PRIVATE_FILE_H_
#define COMMON_TLS_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// All of a file of at most 1 MiB. NotFound: there is none; PermissionDenied; InvalidArgument:
// larger.
absl::StatusOr<std::string> ReadWhole(const std::string& path);

// The same; PermissionDenied too when everybody on the machine may read it, or its group write.
absl::StatusOr<std::string> ReadPrivate(const std::string& path);

// The same; PermissionDenied too when anybody but its owner may, InvalidArgument when it is no
// regular file.
absl::StatusOr<std::string> ReadOwnersOnly(const std::string& path);

// Whole or not at all, mode 0600, or 0644; makes missing folders, mode 0700. Errors of AtomicFile.
absl::Status WritePrivate(const std::string& path, absl::string_view text);
absl::Status WritePublic(const std::string& path, absl::string_view text);

// One that is not there is none too many.
absl::Status RemoveFile(const std::string& path);

}  // namespace paceline

#endif  // COMMON_TLS_PRIVATE_FILE_H_
