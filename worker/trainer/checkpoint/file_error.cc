#include "worker/trainer/checkpoint/file_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paceline {

absl::Status FileError(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status AsFileError(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::UnavailableError(status.message()) : status;
}

bool MayPass(const absl::Status& error) {
  return absl::IsResourceExhausted(error) || absl::IsPermissionDenied(error) ||
         absl::IsUnavailable(error) || absl::IsNotFound(error);
}

}  // namespace paceline
