#include "common/foreign_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr int kOpenFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
constexpr size_t kPiece = 10'000;  // Entries removed between two readings of a directory.
constexpr int kNewNames = 100;

absl::Status Failed(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status Refused(absl::string_view path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(path, " is ", why));
}

absl::Status TooLarge(absl::string_view path, int64_t bytes, size_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(path, " has ", bytes, " bytes, and no more than ", limit, " are read"));
}

// Error of an open(2) that may have met something else than `wanted`.
absl::Status OpenFailed(absl::string_view path, absl::string_view wanted) {
  // A link, not a directory, a socket, or a directory opened for writing.
  if (errno == ELOOP || errno == ENOTDIR || errno == ENXIO || errno == EISDIR) {
    return Refused(path, absl::StrCat("a link, or no ", wanted));
  }
  return Failed("open", path);
}

// Returns `parent`/`name`.
std::string Joined(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : absl::StrCat(parent, parent == "/" ? "" : "/", name);
}

// Returns the descriptor, or a negative errno.
int OpenDirectoryAt(int parent, const std::string& name) {
  const int fd = ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | kOpenFlags);
  return fd < 0 ? -errno : fd;
}

absl::StatusOr<std::string> ReadAllOf(int fd, const std::string& path, const struct stat& info,
                                      size_t limit) {
  if (info.st_size > 0 && static_cast<size_t>(info.st_size) > limit) {
    return TooLarge(path, info.st_size, limit);
  }
  std::string contents;
  char buffer[65536];
  while (true) {
    const ssize_t size = ::read(fd, buffer, sizeof(buffer));
    if (size == 0) return contents;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Failed("read", path);
    contents.append(buffer, static_cast<size_t>(size));
    // The file grows, or its size was unknown.
    if (contents.size() > limit) {
      return TooLarge(path, static_cast<int64_t>(contents.size()), limit);
    }
  }
}

// ---- Removal.

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Listing = std::unique_ptr<DIR, CloseDir>;

// Lists the directory open as `fd` from its first entry. Null on failure, with errno.
Listing List(int fd) {
  const int own = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | kOpenFlags);
  if (own < 0) return nullptr;
  DIR* const listing = ::fdopendir(own);
  if (listing == nullptr) ::close(own);
  return Listing(listing);
}

// Next entry except "." and ".."; null at the end (errno is 0) or on failure.
const dirent* Next(DIR* listing) {
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(listing);
    if (entry == nullptr) return nullptr;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
}

// Overrides a directory's mode so that this process can list, change and remove its contents.
bool MakeUsable(int parent, const std::string& name) {
  const int fd = ::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  bool usable = ::chmod(path.c_str(), 0700) == 0;
  if (!usable && ::chown(path.c_str(), ::geteuid(), static_cast<gid_t>(-1)) == 0) {
    usable = ::chmod(path.c_str(), 0700) == 0;
  }
  ::close(fd);
  return usable;
}

bool IsForbidden(int error) { return error == EACCES || error == EPERM; }

// Like OpenDirectoryAt, for a directory to be emptied. Overrides its mode if that forbids changes
// to everybody or to all but the files' owners.
int OpenToEmpty(int parent, const std::string& name) {
  int fd = OpenDirectoryAt(parent, name);
  struct stat info;
  const bool usable =
      fd >= 0 && ::fstat(fd, &info) == 0 && (info.st_mode & (S_ISVTX | S_IRWXU)) == S_IRWXU;
  if (usable || (fd < 0 && !IsForbidden(-fd)) || !MakeUsable(parent, name)) return fd;
  if (fd < 0) fd = OpenDirectoryAt(parent, name);
  return fd;
}

constexpr int kMore = -1;

// Removes entries up to a budget. Nested directories are first moved up into the top one, so two
// descriptors and no recursion suffice for any depth.
class Remover {
 public:
  // `parent`: descriptor of the directory that contains `name`.
  Remover(int parent, std::string name, size_t budget)
      : parent_(parent), name_(std::move(name)), budget_(static_cast<int64_t>(budget)) {}

  // Returns 0 when `name` is gone, kMore when the budget is used up, or an errno.
  int Run() {
    int error = RemoveName(parent_, name_);
    if (error == 0) return 0;
    const int top = OpenToEmpty(parent_, name_);
    if (top < 0) return top == -ENOTDIR || top == -ELOOP ? error : -top;
    const absl::Cleanup close = [top] { ::close(top); };
    while (true) {
      const int64_t before = budget_;
      error = Empty(top, top);
      const int removed = RemoveDir(parent_, name_);
      if (removed == 0) return 0;
      if (budget_ <= 0) return kMore;
      if (before == budget_) return error != 0 ? error : removed;
      // Directories that were moved up are in `top` now.
    }
  }

 private:
  // Empties `dir`. Its subdirectories are emptied if `dir` is `top`, otherwise moved there.
  int Empty(int dir, int top) {
    const Listing listing = List(dir);
    if (listing == nullptr) return errno;
    int failed = 0;
    while (budget_ > 0) {
      const dirent* const entry = Next(listing.get());
      if (entry == nullptr) return errno != 0 ? errno : failed;
      const int error = RemoveEntry(dir, top, entry->d_name);
      if (error == 0) --budget_;
      if (error != 0) failed = error;
    }
    return failed;
  }

  int RemoveEntry(int dir, int top, const std::string& name) {
    int error = RemoveName(dir, name);
    // unlink of a directory gives EISDIR, on some file systems EPERM.
    if (error != EISDIR && error != EPERM) return error;
    if (dir != top) return MoveUp(dir, top, name);
    const int sub = OpenToEmpty(dir, name);
    if (sub < 0) return sub == -ENOTDIR || sub == -ELOOP ? error : -sub;
    error = Empty(sub, top);
    ::close(sub);
    const int removed = RemoveDir(dir, name);
    return removed == 0 || error == 0 ? removed : error;
  }

  static int RemoveName(int dir, const std::string& name) {
    return ::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT ? 0 : errno;
  }
  static int RemoveDir(int dir, const std::string& name) {
    return ::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : errno;
  }

  static int MoveUp(int dir, int top, const std::string& name) {
    for (int i = 0; i < kNewNames; ++i) {
      uint64_t number = 0;
      if (::getrandom(&number, sizeof(number), 0) != ssize_t{sizeof(number)}) return errno;
      const std::string fresh = absl::StrCat(".", absl::Hex(number, absl::kZeroPad16));
      if (::renameat(dir, name.c_str(), top, fresh.c_str()) == 0 || errno == ENOENT) return 0;
      // Moving a directory requires write permission for it.
      if (IsForbidden(errno) && i == 0 && MakeUsable(dir, name)) continue;
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return errno;
    }
    return EEXIST;
  }

  const int parent_;
  const std::string name_;
  int64_t budget_;
};

}  // namespace

// ---- ForeignFile.

ForeignFile::ForeignFile(ForeignFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), info_(other.info_) {}

ForeignFile& ForeignFile::operator=(ForeignFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(info_, other.info_);
  return *this;
}

ForeignFile::~ForeignFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<std::string> ForeignFile::Read(int64_t offset, size_t size) const {
  std::string data(size, '\0');
  const ssize_t got = ::pread(fd_, data.data(), size, offset);
  if (got < 0) return Failed("read", path_);
  data.resize(static_cast<size_t>(got));
  return data;
}

absl::StatusOr<std::string> ForeignFile::ReadAll(size_t limit) const {
  return ReadAllOf(fd_, path_, info_, limit);
}

// ---- ForeignDir.

absl::StatusOr<ForeignDir> ForeignDir::Open(const std::string& path) {
  const int fd = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return OpenFailed(path, "directory");
  ForeignDir dir(fd, path, 0);
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("look at", path);
  dir.owner_ = info.st_uid;
  return dir;
}

ForeignDir::ForeignDir(ForeignDir&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), owner_(other.owner_) {}

ForeignDir& ForeignDir::operator=(ForeignDir&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(owner_, other.owner_);
  return *this;
}

ForeignDir::~ForeignDir() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<ForeignDir> ForeignDir::OpenDir(const std::string& name) const {
  std::string path = Joined(path_, name);
  const int fd = OpenDirectoryAt(fd_, name);
  if (fd < 0) {
    errno = -fd;
    return OpenFailed(path, "directory");
  }
  ForeignDir dir(fd, std::move(path), owner_);
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("look at", dir.path_);
  if (info.st_uid != owner_) return Refused(dir.path_, "another user's");
  return dir;
}

absl::StatusOr<ForeignFile> ForeignDir::OpenFile(const std::string& name, bool writable) const {
  const std::string path = Joined(path_, name);
  const int fd =
      ::openat(fd_, name.c_str(), (writable ? O_RDWR : O_RDONLY) | kOpenFlags | O_NOCTTY);
  if (fd < 0) return OpenFailed(path, "regular file");
  struct stat info = {};
  const int looked = ::fstat(fd, &info);
  ForeignFile file(fd, path, info);
  if (looked != 0) return Failed("look at", path);
  if (!S_ISREG(info.st_mode)) return Refused(path, "a link, or no regular file");
  // It may be a second name of a file that the other user cannot read.
  if (info.st_nlink > 1) return Refused(path, "the second name of a file");
  if (info.st_uid != owner_) return Refused(path, "another user's");
  return file;
}

absl::Status ForeignDir::WriteToPipe(const std::string& name, absl::string_view text) const {
  const std::string path = Joined(path_, name);
  const int fd = ::openat(fd_, name.c_str(), O_WRONLY | kOpenFlags | O_NOCTTY);
  struct stat info = {};
  if (fd < 0 && errno == ENXIO && ::fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISFIFO(info.st_mode)) {
    return absl::UnavailableError(absl::StrCat("nobody reads ", path));
  }
  if (fd < 0) return OpenFailed(path, "named pipe");
  const absl::Cleanup close = [fd] { ::close(fd); };
  if (::fstat(fd, &info) != 0) return Failed("look at", path);
  if (!S_ISFIFO(info.st_mode)) return Refused(path, "a link, or no named pipe");
  if (info.st_uid != owner_) return Refused(path, "another user's");
  if (::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  if (errno == EAGAIN || errno == EPIPE) {
    return absl::UnavailableError(absl::StrCat("nobody reads ", path));
  }
  return Failed("write to", path);
}

absl::StatusOr<std::vector<std::string>> ForeignDir::Names(size_t limit) const {
  const Listing listing = List(fd_);
  if (listing == nullptr) return Failed("list", path_);
  std::vector<std::string> names;
  while (names.size() < limit) {
    const dirent* const entry = Next(listing.get());
    if (entry == nullptr && errno != 0) return Failed("list", path_);
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  return names;
}

absl::Status ForeignDir::Remove(const std::string& name) const {
  if (::unlinkat(fd_, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed("remove", Joined(path_, name));
}

absl::StatusOr<bool> ForeignDir::RemoveSome(const std::string& name, size_t limit) const {
  const int error = Remover(fd_, name, limit).Run();
  if (error == 0) return true;
  if (error == kMore) return false;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot remove ", Joined(path_, name)));
}

// ---- Functions on paths.

std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, std::max<size_t>(1, slash)), path.substr(slash + 1)};
}

absl::Status RemoveForeignTree(const std::string& path) {
  const auto [directory, name] = SplitPath(path);
  const absl::StatusOr<ForeignDir> parent = ForeignDir::Open(directory);
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(parent.status());
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool gone, parent->RemoveSome(name, kPiece));
    if (gone) return absl::OkStatus();
  }
}

absl::StatusOr<std::string> ReadBoundedFile(const std::string& path, size_t limit) {
  // Non-blocking, since opening a pipe without a writer would hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return OpenFailed(path, "regular file");
  const absl::Cleanup close = [fd] { ::close(fd); };
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return Failed("look at", path);
  if (!S_ISREG(info.st_mode)) return Refused(path, "no regular file");
  return ReadAllOf(fd, path, info, limit);
}

}  // namespace paceline
