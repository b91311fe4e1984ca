// Small files that are read and replaced as a whole. They are not synced: what they describe does
// not survive a power loss either.
#ifndef WORKER_SHIM_SMALL_FILE_H_
#define WORKER_SHIM_SMALL_FILE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Writes beside `path` and renames, so that readers see all or nothing.
absl::Status WriteSmallFile(const std::string& path, absl::string_view contents);

// Reads the file; nothing when it does not exist.
absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path);

}  // namespace paceline

#endif  // WORKER_SHIM_SMALL_FILE_H_
