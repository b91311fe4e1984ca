// Writes a file whole or not at all.
//
// The bytes go to a temporary name in the same directory, are synced, and the file is then
// renamed over `path`, so that a reader sees the old contents or the new ones, also after a
// loss of power. On an error the temporary file is removed and `path` is untouched.
//
// Thread-safe for different paths.
#ifndef COMMON_ATOMIC_FILE_ATOMIC_FILE_H_
#define COMMON_ATOMIC_FILE_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paceline {

// Writes `pieces` one after the other. Errors name the file: NotFound when its directory is
// missing, PermissionDenied, ResourceExhausted when the disk is full, else Unavailable.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);

}  // namespace paceline

#endif  // COMMON_ATOMIC_FILE_ATOMIC_FILE_H_
