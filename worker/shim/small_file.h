// Small files that are read and replaced whole. Not synced: what they tell of does not outlive
// a loss of power either.
#ifndef WORKER_SHIM_SMALL_FILE_H_
#define WORKER_SHIM_SMALL_FILE_H_

#include <cstddef>
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

// The same in a directory of somebody who is not trusted: a link, or what is no regular file with
// one name, is FailedPrecondition, one of more than `limit` bytes ResourceExhausted.
absl::StatusOr<std::optional<std::string>> ReadForeignFile(const std::string& path, size_t limit);

// Opens such a file for reading. The descriptor, or minus an errno: ELOOP for one that is refused.
int OpenForeignFile(const std::string& path);

}  // namespace paceline

#endif  // WORKER_SHIM_SMALL_FILE_H_
