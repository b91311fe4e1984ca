#include "worker/trainer/check/host_check.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr int kCopies = 5;
constexpr size_t kAlignment = 4096;
constexpr size_t kBlock = 4 << 20;
constexpr double kGiga = 1e9;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<char, Free>;

// Touches all pages, so that none is created during the measurement.
Buffer NewBuffer(size_t bytes) {
  Buffer buffer(static_cast<char*>(std::aligned_alloc(kAlignment, bytes)));
  if (buffer != nullptr) std::memset(buffer.get(), 0x5a, bytes);
  return buffer;
}

// Bytes of memory available without swapping; 0: unknown.
size_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  size_t kib = 0;
  std::string unit;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

class File {
 public:
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  static absl::StatusOr<File> Open(const std::string& dir) {
    int fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    // Some file systems support no O_DIRECT, or no files without a name.
    if (fd < 0 && errno == EINVAL) fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EOPNOTSUPP) {
      std::string path = dir + "/probe.XXXXXX";
      fd = ::mkostemp(path.data(), O_CLOEXEC);
      if (fd >= 0) ::unlink(path.c_str());
    }
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create a file in ", dir));
    return File(fd);
  }

  int fd() const { return fd_; }

 private:
  explicit File(int fd) : fd_(fd) {}
  int fd_;
};

// Transfers the file block by block; returns the bytes done within `limit`.
template <typename Transfer>
absl::StatusOr<size_t> Run(size_t bytes, absl::Time deadline, const Transfer& transfer) {
  size_t done = 0;
  while (done < bytes && BootNow() < deadline) {
    const ssize_t size = transfer(static_cast<off_t>(done));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return absl::ErrnoToStatus(size < 0 ? errno : EIO, "cannot use the disk");
    done += static_cast<size_t>(size);
  }
  return done;
}

}  // namespace

absl::StatusOr<std::vector<Measurement>> CheckMemory(size_t bytes, absl::Duration limit) {
  const size_t available = AvailableMemory();
  if (available > 0 && available < 4 * bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory not measured: only ", available >> 20, " MiB are to spare"));
  }
  const Buffer from = NewBuffer(bytes);
  const Buffer to = NewBuffer(bytes);
  if (from == nullptr || to == nullptr) {
    return absl::ResourceExhaustedError("memory not measured: none to be had");
  }
  const absl::Time deadline = BootNow() + limit;
  std::vector<double> rates;
  for (int i = 0; i < kCopies; ++i) {
    from.get()[i] = static_cast<char>(i);
    const absl::Time start = BootNow();
    if (i > 0 && start >= deadline) break;
    std::memcpy(to.get(), from.get(), bytes);
    rates.push_back(static_cast<double>(bytes) / absl::ToDoubleSeconds(BootNow() - start) / kGiga);
  }
  return std::vector<Measurement>{{"memory_bandwidth", Median(rates), "GB/s", true}};
}

absl::StatusOr<std::vector<Measurement>> CheckDisk(const std::string& dir, size_t bytes,
                                                   absl::Duration limit) {
  struct statvfs space;
  if (::statvfs(dir.c_str(), &space) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("disk not measured: ", dir));
  }
  if (space.f_bavail * space.f_frsize < 4 * bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "disk not measured: only ", (space.f_bavail * space.f_frsize) >> 20, " MiB free in ", dir));
  }
  PACELINE_ASSIGN_OR_RETURN(const File file, File::Open(dir));
  const Buffer block = NewBuffer(kBlock);
  if (block == nullptr) return absl::ResourceExhaustedError("disk not measured: no memory");

  const absl::Time write_start = BootNow();
  PACELINE_ASSIGN_OR_RETURN(const size_t written, Run(bytes, write_start + limit, [&](off_t at) {
                              return ::pwrite(file.fd(), block.get(), kBlock, at);
                            }));
  if (::fdatasync(file.fd()) != 0) return absl::ErrnoToStatus(errno, "cannot sync the disk");
  const double write_s = absl::ToDoubleSeconds(BootNow() - write_start);

  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  const absl::Time read_start = BootNow();
  PACELINE_ASSIGN_OR_RETURN(const size_t read, Run(written, read_start + limit, [&](off_t at) {
                              return ::pread(file.fd(), block.get(), kBlock, at);
                            }));
  const double read_s = absl::ToDoubleSeconds(BootNow() - read_start);
  return std::vector<Measurement>{
      {"disk_write", static_cast<double>(written) / write_s / kGiga, "GB/s", true},
      {"disk_read", static_cast<double>(read) / read_s / kGiga, "GB/s", true}};
}

}  // namespace paceline
