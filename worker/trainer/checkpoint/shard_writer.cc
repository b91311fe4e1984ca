#include "worker/trainer/checkpoint/shard_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/file_error.h"

namespace paceline {
namespace {

constexpr size_t kPieceBytes = 4 << 20;

// A file that is removed unless it is finished.
class ShardFile {
 public:
  explicit ShardFile(const std::string& path) : path_(path) {}
  ~ShardFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  absl::Status Create(size_t bytes) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) return FileError("cannot create", path_);
    // Not in open: where O_DIRECT is refused, open would leave the new file behind.
    direct_ = ::fcntl(fd_, F_SETFL, O_DIRECT) == 0;
    // Detects a full disk before anything is written. Not all file systems support this.
    if (bytes != 0 && ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS) {
      return FileError("cannot allocate", path_);
    }
    return absl::OkStatus();
  }

  absl::Status Write(size_t offset, absl::string_view bytes) {
    const size_t begin = offset;
    while (!bytes.empty()) {
      if (direct_ && !IsAligned(offset, bytes)) UseCache();
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EINVAL && direct_) {
        UseCache();
        continue;
      }
      if (written < 0) return FileError("cannot write", path_);
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += static_cast<size_t>(written);
    }
    // Only a hint: fsync reports write errors.
    if (!direct_) {
      ::sync_file_range(fd_, static_cast<off_t>(begin), static_cast<off_t>(offset - begin),
                        SYNC_FILE_RANGE_WRITE);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (::fsync(fd_) != 0) return FileError("cannot sync", path_);
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) == 0) return absl::OkStatus();
    const absl::Status status = FileError("cannot close", path_);
    ::unlink(path_.c_str());
    return status;
  }

 private:
  static bool IsAligned(size_t offset, absl::string_view bytes) {
    return (reinterpret_cast<uintptr_t>(bytes.data()) | offset | bytes.size()) % kDirectAlignment ==
           0;
  }

  // From now on writes through the cache: for the end of the file, or where O_DIRECT is refused.
  void UseCache() {
    ::fcntl(fd_, F_SETFL, 0);
    direct_ = false;
  }

  const std::string path_;
  int fd_ = -1;
  bool direct_ = false;
};

// Sleeps as needed to stay below a rate limit.
class Throttle {
 public:
  explicit Throttle(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  void After(size_t bytes) {
    if (bytes_per_second_ <= 0) return;
    const absl::Duration wanted = absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
    absl::SleepFor(begin_ + wanted - BootNow());
  }

 private:
  const double bytes_per_second_;
  const absl::Time begin_ = BootNow();
};

absl::Status SyncDirectory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open", path);
  absl::Status status;
  // Some network file systems neither support nor need syncing a directory.
  if (::fsync(fd) != 0 && errno != EINVAL) status = FileError("cannot sync", path);
  ::close(fd);
  return status;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status WriteShard(const std::string& path, absl::string_view contents,
                        const ShardWriteOptions& options) {
  ShardFile file(path);
  PACELINE_RETURN_IF_ERROR(file.Create(contents.size()));
  Throttle throttle(options.bytes_per_second);
  // The rest, too short for O_DIRECT, is a piece of its own.
  const size_t aligned = contents.size() - contents.size() % kDirectAlignment;
  for (size_t at = 0; at < contents.size();) {
    const size_t end = std::min(at + kPieceBytes, at < aligned ? aligned : contents.size());
    options.wait(end);
    PACELINE_RETURN_IF_ERROR(file.Write(at, contents.substr(at, end - at)));
    throttle.After(end);
    at = end;
  }
  return file.Finish();
}

absl::Status MakeDirectory(const std::string& path, int above) {
  if (::mkdir(path.c_str(), 0755) == 0) return SyncDirectory(ParentOf(path));
  if (errno == EEXIST) return absl::OkStatus();
  if (errno != ENOENT || above == 0) return FileError("cannot make", path);
  PACELINE_RETURN_IF_ERROR(MakeDirectory(ParentOf(path), above - 1));
  // Another rank may have created it meanwhile.
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return FileError("cannot make", path);
  return SyncDirectory(ParentOf(path));
}

}  // namespace paceline
