#include "worker/trainer/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("shared memory: ", what, ": ", strerror(errno)));
}

off_t SizeOf(size_t bytes) { return static_cast<off_t>(bytes + sizeof(int64_t)); }

// The lock of one place. It belongs to the open file, so two in one process exclude each other.
struct flock LockOf(int place) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return lock;
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Make(size_t bytes) {
  const int file = memfd_create("paceline", MFD_CLOEXEC);
  if (file < 0) return Failed("making it");
  if (ftruncate(file, SizeOf(bytes)) != 0) {
    const absl::Status status = Failed("sizing it");
    close(file);
    return status;
  }
  absl::StatusOr<SharedMemory> memory = Map(file, bytes);
  std::random_device random;
  if (memory.ok()) *memory->token() = std::uniform_int_distribution<int64_t>()(random);
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(const Address& address, size_t bytes) {
  const std::string path = absl::StrCat("/proc/", address.process, "/fd/", address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return Failed(path);
  struct stat status {};
  const absl::Status other =
      absl::UnavailableError(absl::StrCat("shared memory: ", path, " is something else"));
  if (fstat(file, &status) != 0 || status.st_size != SizeOf(bytes)) {
    close(file);
    return other;
  }
  absl::StatusOr<SharedMemory> memory = Map(file, bytes);
  if (memory.ok() && *memory->token() != address.token) return other;
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Map(int file, size_t bytes) {
  void* const data = mmap(nullptr, static_cast<size_t>(SizeOf(bytes)), PROT_READ | PROT_WRITE,
                          MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    const absl::Status status = Failed("mapping it");
    close(file);
    return status;
  }
  return SharedMemory(file, static_cast<char*>(data), bytes);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  munmap(data_, static_cast<size_t>(SizeOf(bytes_)));
  close(file_);
}

SharedMemory::Address SharedMemory::address() const { return {getpid(), file_, *token()}; }

int64_t* SharedMemory::token() const { return reinterpret_cast<int64_t*>(data_ + bytes_); }

absl::Status SharedMemory::TakePlace(int place) {
  struct flock lock = LockOf(place);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) return Failed(absl::StrCat("place ", place));
  return absl::OkStatus();
}

bool SharedMemory::IsTaken(int place) const {
  struct flock lock = LockOf(place);
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

uint64_t NodeKey() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat processes {};
  stat("/proc/self/ns/pid", &processes);
  return ChecksumOf(absl::StrCat(boot, "/", processes.st_dev, "/", processes.st_ino));
}

}  // namespace paceline
