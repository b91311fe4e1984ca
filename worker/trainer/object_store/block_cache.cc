#include "worker/trainer/object_store/block_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "common/uuid.h"

namespace paceline {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr absl::Duration kTurnPoll = absl::Milliseconds(20);
// The lock is held for an instant, unless its holder is stopped.
constexpr absl::Duration kLockPatience = absl::Seconds(3);
constexpr absl::Duration kLockPoll = absl::Milliseconds(2);
// How exactly it is known when a block was last read.
constexpr time_t kTouchSeconds = 5;
// When room is needed, so much more of the limit is freed, so that the blocks are seldom listed.
constexpr int64_t kSpareShare = 16;
// Of the disk so much is left for checkpoints, logs and others, but no more than that.
constexpr int64_t kReserveShare = 20;
constexpr int64_t kMostReserve = int64_t{1} << 30;

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(message)
                                            : absl::UnavailableError(message);
}

absl::Status Unusable(const std::string& directory, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the cache of objects, ", directory, ", ", why,
                   "; give the worker another one (--object-cache)"));
}

// Makes the directory, for its owner alone, or checks one that is there.
absl::Status CheckDirectory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unusable(directory, absl::StrCat("cannot be made: ", std::strerror(errno)));
  }
  struct stat found;
  if (::lstat(directory.c_str(), &found) != 0) {
    return Unusable(directory, absl::StrCat("cannot be looked at: ", std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode)) return Unusable(directory, "is no directory");
  if (found.st_uid != ::geteuid()) return Unusable(directory, "belongs to another user");
  if ((found.st_mode & 022) != 0) return Unusable(directory, "can be written by others");
  return absl::OkStatus();
}

// Closes its file.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Opens a file and locks it until it is closed. DeadlineExceeded: another process keeps the lock.
absl::StatusOr<int> OpenLocked(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Failed("cannot open", path);
  absl::Duration waited = absl::ZeroDuration();
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno == EWOULDBLOCK || errno == EINTR) && waited < kLockPatience) {
      absl::SleepFor(kLockPoll);
      waited += kLockPoll;
      continue;
    }
    const absl::Status status =
        errno == EWOULDBLOCK
            ? absl::DeadlineExceededError(absl::StrCat(
                  path, " is locked by another process for ", absl::FormatDuration(kLockPatience),
                  "; look for a trainer of this node that is stopped"))
            : Failed("cannot lock", path);
    ::close(fd);
    return status;
  }
  return fd;
}

bool ReadAll(int fd, size_t begin, absl::Span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool HasChecksum(int fd, size_t block_bytes) {
  std::string bytes(block_bytes + kChecksumBytes, '\0');
  if (!ReadAll(fd, 0, absl::MakeSpan(&bytes[0], bytes.size()))) return false;
  uint64_t kept = 0;
  std::memcpy(&kept, bytes.data() + block_bytes, sizeof(kept));
  return kept == ChecksumOf(absl::string_view(bytes).substr(0, block_bytes));
}

struct KeptBlock {
  int64_t read_s = 0;  // When it was last read.
  std::string path;
  int64_t bytes = 0;
};

// Whether nobody writes the file any more: its writer was killed.
bool IsLeftBehind(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.fd() >= 0 && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0;
}

// Creates and locks a file of this size. Returns its descriptor.
absl::StatusOr<int> CreateLocked(const std::string& path, int64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Failed("cannot create", path);
  // The space is taken now, so that others who list the files count it, and a full disk is noticed.
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const bool there = locked && (::fallocate(fd, 0, 0, bytes) == 0 ||
                                (errno == EOPNOTSUPP && ::ftruncate(fd, bytes) == 0));
  if (there) return fd;
  const absl::Status status = Failed("cannot reserve space for", path);
  ::unlink(path.c_str());
  ::close(fd);
  return status;
}

// Another one in each call. Containers that share the cache have processes of equal numbers.
std::string TemporaryName(const BlockName& name) {
  return absl::StrCat(".", name.Text(), ".", absl::Hex(RandomBits(), absl::kZeroPad16));
}

}  // namespace

std::optional<DiskSpace> OwnDiskSpace(const std::string& directory) {
  struct statvfs found;
  if (::statvfs(directory.c_str(), &found) != 0) return std::nullopt;
  const auto unit = static_cast<int64_t>(found.f_frsize);
  return DiskSpace{static_cast<int64_t>(found.f_blocks) * unit,
                   static_cast<int64_t>(found.f_bavail) * unit};
}

std::string BlockName::Text() const { return absl::StrCat(object, ".", number); }

BlockCache::Turn::Turn(Turn&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

BlockCache::Turn::~Turn() {
  if (fd_ >= 0) ::close(fd_);  // Which unlocks.
}

absl::StatusOr<std::unique_ptr<BlockCache>> BlockCache::Open(const std::string& directory,
                                                             int64_t most_bytes,
                                                             DiskSpaceOf disk_space) {
  PACELINE_RETURN_IF_ERROR(CheckDirectory(directory));
  auto cache = absl::WrapUnique(new BlockCache(directory, most_bytes, std::move(disk_space)));
  PACELINE_RETURN_IF_ERROR(CheckDirectory(cache->BlocksDir()));
  for (const char* const name : {"/lock", "/turns"}) {
    const std::string path = directory + name;
    const OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (file.fd() < 0) {
      return Unusable(directory, absl::StrCat("has a file ", name + 1,
                                              " that cannot be opened: ", std::strerror(errno)));
    }
  }
  const absl::Status counted = cache->Count();
  // Who cannot lock it now, or finds the disk full, may fare better later, and keeps no blocks
  // until then.
  if (!counted.ok() && !absl::IsDeadlineExceeded(counted) && !absl::IsResourceExhausted(counted)) {
    return Unusable(directory, absl::StrCat("cannot be counted: ", counted.message()));
  }
  return cache;
}

bool BlockCache::Read(const BlockName& name, size_t block_bytes, size_t begin,
                      absl::Span<char> out) {
  const std::string text = name.Text();
  const std::string path = absl::StrCat(BlocksDir(), "/", text);
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found;
  if (file.fd() < 0 || ::fstat(file.fd(), &found) != 0) return false;
  bool verified = false;
  {
    const absl::MutexLock lock(&mutex_);
    verified = verified_.contains(text);
  }
  const bool whole = static_cast<size_t>(found.st_size) == block_bytes + kChecksumBytes;
  if (!whole || (!verified && !HasChecksum(file.fd(), block_bytes))) {
    ::unlink(path.c_str());
    return false;
  }
  if (!verified) SetVerified(text, found.st_size);
  const time_t age = ::time(nullptr) - found.st_mtim.tv_sec;
  if (age > kTouchSeconds || age < -kTouchSeconds) {
    // The file's time of change says when it was read. It matters little if that cannot be set.
    (void)::futimens(file.fd(), nullptr);
  }
  return ReadAll(file.fd(), begin, out);
}

BlockCache::Turn BlockCache::WaitTurn(const BlockName& name, absl::Duration patience,
                                      absl::FunctionRef<bool()> is_over) const {
  const std::string path = directory_ + "/turns";
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  Turn turn(fd);
  if (fd < 0) return turn;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  // Two blocks with the same number wait for each other, at worst.
  lock.l_start = static_cast<off_t>(std::hash<std::string>()(name.Text()) >> 2);
  lock.l_len = 1;
  absl::Duration waited = absl::ZeroDuration();
  // Locks of the open file, so that threads of one process exclude each other, too.
  while (::fcntl(fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES) &&
         waited < patience && !is_over()) {
    absl::SleepFor(kTurnPoll);
    waited += kTurnPoll;
  }
  return turn;
}

int64_t BlockCache::MissingOnDisk(int64_t bytes) const {
  const std::optional<DiskSpace> disk = disk_space_(directory_);
  if (!disk.has_value() || disk->total <= 0) return 0;  // Creating the file tells.
  return std::min(disk->total / kReserveShare, kMostReserve) + bytes - disk->available;
}

absl::Status BlockCache::Count() {
  const std::string path = directory_ + "/lock";
  PACELINE_ASSIGN_OR_RETURN(const int locked_fd, OpenLocked(path));
  const OpenFile lock(locked_fd);
  const int64_t sum = MakeRoom(0, MissingOnDisk(0));
  if (::pwrite(lock.fd(), &sum, sizeof(sum), 0) != sizeof(sum)) return Failed("cannot write", path);
  return absl::OkStatus();
}

absl::StatusOr<int> BlockCache::Reserve(const std::string& temporary, int64_t bytes) {
  const std::string path = directory_ + "/lock";
  PACELINE_ASSIGN_OR_RETURN(const int locked_fd, OpenLocked(path));
  const OpenFile lock(locked_fd);
  int64_t sum = 0;
  const bool known = ::pread(lock.fd(), &sum, sizeof(sum), 0) == sizeof(sum) && sum >= 0;
  const bool fits = bytes <= most_bytes_;
  const int64_t room = most_bytes_ - bytes;
  int64_t missing = fits ? MissingOnDisk(bytes) : 0;
  if (!known || (fits && sum > room) || missing > 0) sum = MakeRoom(fits ? bytes : 0, missing);
  if (sum > room) {
    return absl::ResourceExhaustedError(absl::StrCat("the cache of objects, ", directory_,
                                                     ", has no room for ", bytes,
                                                     " bytes within its limit of ", most_bytes_));
  }
  if (missing > 0) missing = MissingOnDisk(bytes);
  if (missing > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the disk of the cache of objects, ", directory_, ", has no room for ", bytes,
                     " bytes beside what is left free on it for others: it lacks ", missing));
  }
  const auto create = [&]() -> absl::StatusOr<int> {
    sum += bytes;
    if (::pwrite(lock.fd(), &sum, sizeof(sum), 0) != sizeof(sum)) {
      return Failed("cannot write", path);
    }
    return CreateLocked(temporary, bytes);
  };
  absl::StatusOr<int> fd = create();
  if (!absl::IsResourceExhausted(fd.status())) return fd;
  // Others have taken the room meanwhile, or a quota is what is full.
  sum = MakeRoom(bytes, bytes);
  if (sum > room) return fd;
  return create();
}

int64_t BlockCache::MakeRoom(int64_t bytes, int64_t missing) {
  std::vector<KeptBlock> blocks;
  int64_t sum = 0;
  const time_t now = ::time(nullptr);
  std::error_code error;
  std::filesystem::directory_iterator entry(BlocksDir(), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat found;
    if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    const bool temporary = entry->path().filename().string()[0] == '.';
    if (temporary && IsLeftBehind(path) && ::unlink(path.c_str()) == 0) continue;
    sum += found.st_size;
    if (temporary) continue;
    // A time to come was set by a clock that was wrong, and the block was not read since.
    const bool is_to_come = found.st_mtim.tv_sec > now + kTouchSeconds;
    blocks.push_back({is_to_come ? 0 : found.st_mtim.tv_sec, path, found.st_size});
  }
  if (error) return most_bytes_;  // Nothing is known, so nothing is added.
  const int64_t most = std::min(most_bytes_ - bytes, sum - std::max(missing, int64_t{0}));
  if (sum <= most) return sum;
  std::sort(blocks.begin(), blocks.end(), [](const KeptBlock& a, const KeptBlock& b) {
    return std::tie(a.read_s, a.path) < std::tie(b.read_s, b.path);
  });
  if (missing > 0 && !blocks.empty() && !has_told_of_disk_.exchange(true)) {
    PACELINE_LOG(WARNING)
        << "object_cache_disk_full directory=" << directory_ << " bytes_kept=" << sum
        << " bytes_missing=" << missing
        << " reason=\"the disk has too little room for what others write on it\""
           ", blocks that were read longest ago go; free room, or give the worker "
           "fewer --object-cache-bytes";
  }
  const int64_t wanted = most - std::min(most_bytes_, sum) / kSpareShare;
  for (const KeptBlock& block : blocks) {
    if (sum <= wanted) break;
    if (::unlink(block.path.c_str()) == 0) sum -= block.bytes;
  }
  return sum;
}

absl::Status BlockCache::Keep(const BlockName& name, absl::string_view bytes) {
  const std::string temporary = absl::StrCat(BlocksDir(), "/", TemporaryName(name));
  PACELINE_ASSIGN_OR_RETURN(
      const int fd, Reserve(temporary, static_cast<int64_t>(bytes.size() + kChecksumBytes)));
  const OpenFile file(fd);
  const uint64_t checksum = ChecksumOf(bytes);
  const absl::string_view end(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  const std::string path = absl::StrCat(BlocksDir(), "/", name.Text());
  if (!WriteAll(fd, bytes) || !WriteAll(fd, end) ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = Failed("cannot write", temporary);
    ::unlink(temporary.c_str());
    return status;
  }
  SetVerified(name.Text(), static_cast<int64_t>(bytes.size() + kChecksumBytes));
  return absl::OkStatus();
}

void BlockCache::SetVerified(const std::string& text, int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  if (!verified_.insert(text).second) return;
  verified_bytes_ += bytes;
  if (verified_bytes_ / 2 <= most_bytes_) return;
  verified_.clear();
  verified_.insert(text);
  verified_bytes_ = bytes;
}

}  // namespace paceline
