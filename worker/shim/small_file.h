// Small files that are read and replaced whole. Not synced: what they tell of does not outlive
// a loss of power either.
#ifndef WORKER_SHIM_SMALL_FILE_H_
#define WORKER_SHIM_SMALL_FILE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Writes beside `path` and renames, so that a reader sees all or nothing.
absl::Status WriteSmallFile(const std::string& path, absl::string_view contents);

// Nothing when there is no such file.
absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path);

}  // namespace paceline

#endif  // WORKER_SHIM_SMALL_FILE_H_
