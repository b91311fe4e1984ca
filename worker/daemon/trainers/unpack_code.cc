#include "worker/daemon/trainers/unpack_code.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "common/job_spec/code_files.h"
#include "common/tls/key_and_request.h"

namespace paceline {
namespace {

absl::Status Failed(const char* what, absl::string_view path) {
  const int error = errno;
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", ShownCodePath(path)));
  if (error != ENOSPC && error != EDQUOT) return status;
  return absl::ResourceExhaustedError(status.message());
}

// Opens the folder that contains the path, and creates it if missing. Follows no links.
absl::StatusOr<int> OpenParent(int root, const std::string& path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  parts.pop_back();
  int dir = ::fcntl(root, F_DUPFD_CLOEXEC, 0);
  for (const std::string& part : parts) {
    if (dir < 0) break;
    const int above = dir;
    dir = -1;
    if (::mkdirat(above, part.c_str(), 0777) == 0 || errno == EEXIST) {
      dir = ::openat(above, part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    const int error = errno;
    ::close(above);
    errno = error;
  }
  if (dir < 0) return Failed("make the folder of", path);
  return dir;
}

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", path);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteFile(int root, const v1::CodeFile& file) {
  PACELINE_ASSIGN_OR_RETURN(const int parent, OpenParent(root, file.path()));
  const absl::Cleanup close_parent = [parent] { ::close(parent); };
  const std::string name = file.path().substr(file.path().rfind('/') + 1);
  if (!file.link().empty()) {
    if (::symlinkat(file.link().c_str(), parent, name.c_str()) == 0) return absl::OkStatus();
    return Failed("make the link", file.path());
  }
  const int fd =
      ::openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               file.executable() ? 0777 : 0666);
  if (fd < 0) return Failed("make", file.path());
  absl::Status status = WriteAll(fd, file.data(), file.path());
  // Some file systems report only at close that they are full.
  if (::close(fd) != 0 && status.ok()) status = Failed("write", file.path());
  return status;
}

}  // namespace

absl::Status UnpackCode(const JobUser& user, const std::string& dir, const std::string& sha256,
                        absl::string_view bytes, const std::atomic<bool>& stop) {
  if (Sha256Hex(bytes) != sha256) {
    return absl::InvalidArgumentError("what the controller has sent is not what its hash says");
  }
  if (::mkdir(dir.c_str(), 0700) != 0) return Failed("make", dir);
  PACELINE_RETURN_IF_ERROR(GiveTo(user, dir));
  const int root = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0) return Failed("open", dir);
  const absl::Cleanup close_root = [root] { ::close(root); };
  if (!user.is_own) {
    if (const char* const step = ActAsUser(user.ids)) {
      return Failed(step, absl::StrCat("of --run-as ", user.name));
    }
  }
  return ReadCodeFiles(bytes, [&](const v1::CodeFile& file) {
    return stop ? absl::CancelledError("the daemon ends") : WriteFile(root, file);
  });
}

}  // namespace paceline
