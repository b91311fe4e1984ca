#include "worker/shim/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace paceline {

absl::Status WriteSmallFile(const std::string& path, absl::string_view contents) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary));
  const ssize_t written = ::write(fd, contents.data(), contents.size());
  // On a full disk, the first symptom is a short write.
  const int error = written < 0 ? errno : ENOSPC;
  ::close(fd);
  if (written == static_cast<ssize_t>(contents.size())) {
    if (::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename to ", path));
  }
  ::unlink(temporary.c_str());
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::string contents;
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(fd, buffer, sizeof(buffer))) > 0) {
    contents.append(buffer, static_cast<size_t>(size));
  }
  const int error = errno;
  ::close(fd);
  if (size < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
  return contents;
}

}  // namespace paceline
