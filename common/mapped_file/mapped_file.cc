#include "common/mapped_file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, Access access, size_t limit) {
  const bool writable = access == Access::kReadWrite;
  const int fd = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::FailedPreconditionError(absl::StrCat(path, " is no regular file"));
  }
  if (info.st_size == 0) {
    ::close(fd);
    return absl::DataLossError(absl::StrCat(path, ": at offset 0: truncated: the file is empty"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size > limit) {
    ::close(fd);
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", size, " bytes, and no more than ", limit, " are mapped"));
  }
  void* const data =
      ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
             access == Access::kReadOnDemand ? MAP_SHARED : MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot map ", path));
  }
  return MappedFile(path, fd, data, size);
}

MappedFile::MappedFile(std::string path, int fd, void* data, size_t size)
    : path_(std::move(path)), fd_(fd), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  ::munmap(data_, size_);
  ::close(fd_);
}

absl::Status MappedFile::CheckSize() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot ask for the size of ", path_));
  }
  if (static_cast<size_t>(info.st_size) >= size_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": at offset ", info.st_size,
                                          ": the file ends here now; when it was opened it had ",
                                          size_, " bytes"));
}

}  // namespace paceline
