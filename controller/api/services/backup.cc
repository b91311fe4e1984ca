#include "controller/api/services/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "controller/store/sqlite_db.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
// Disk space left free beside the copy, for the state to grow: a full disk ends the controller.
constexpr int64_t kSpareBytes = 64 << 20;

std::string CopyPath(const std::string& state_file) { return state_file + ".backup"; }

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// A stream that one thread writes to, blocking. Deletes itself after Finish.
class BackupStream : public grpc::ServerWriteReactor<v1::BackupChunk> {
 public:
  BackupStream(grpc::CallbackServerContext* context, const CallLimits* limits)
      : context_(context), limits_(limits) {}

  // Returns Cancelled if the client has gone or did not take the chunk in time.
  absl::Status Send(v1::BackupChunk chunk) {
    current_ = std::move(chunk);
    {
      const absl::MutexLock lock(&mutex_);
      idle_ = false;
    }
    StartWrite(&current_);
    const absl::Duration patience = limits_->options().stream_patience;
    if (!WaitUntilWritten(patience)) {
      limits_->AbortSlowReader(context_);
      // gRPC owns the message until the write has ended.
      WaitUntilWritten(absl::InfiniteDuration());
      return absl::CancelledError(
          absl::StrCat("the client has taken nothing for ", absl::FormatDuration(patience)));
    }
    return gone() ? absl::CancelledError("the client has gone") : absl::OkStatus();
  }

  bool gone() {
    const absl::MutexLock lock(&mutex_);
    return gone_;
  }

 private:
  // Returns false if the write did not end in time.
  bool WaitUntilWritten(absl::Duration patience) {
    const absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&idle_), patience);
  }

  void OnWriteDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    idle_ = true;
    gone_ = gone_ || !ok;
  }
  void OnCancel() override {
    const absl::MutexLock lock(&mutex_);
    gone_ = true;
  }
  void OnDone() override { delete this; }

  grpc::CallbackServerContext* const context_;
  const CallLimits* const limits_;
  v1::BackupChunk current_;  // Message being written.
  absl::Mutex mutex_;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status CheckSpace(const std::string& state_file) {
  struct stat state = {};
  struct statvfs disk = {};
  if (stat(state_file.c_str(), &state) != 0 || statvfs(state_file.c_str(), &disk) != 0) {
    return SystemError(state_file);
  }
  const int64_t wanted = static_cast<int64_t>(state.st_size) + kSpareBytes;
  const int64_t there = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (there >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a backup needs ", wanted, " bytes beside ", state_file, " for its copy, and ",
                   there, " are free there: free some, or give the controller a larger disk"));
}

// Makes a copy of the present state and opens it for reading; the file's name is removed.
absl::StatusOr<int> OpenCopy(const std::string& state_file, BackupStream* stream) {
  PACELINE_RETURN_IF_ERROR(CheckSpace(state_file));
  const std::string copy = CopyPath(state_file);
  absl::Status status;
  {
    PACELINE_ASSIGN_OR_RETURN(
        SqliteDb state, SqliteDb::Open(state_file, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX));
    status = CopyDatabase(state, copy, /*durable=*/false, [stream] { return stream->gone(); });
  }
  const int fd = status.ok() ? open(copy.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  if (status.ok() && fd < 0) status = SystemError(copy);
  unlink(copy.c_str());
  if (!status.ok()) return status;
  return fd;
}

absl::StatusOr<int64_t> SendFile(int fd, BackupStream* stream) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return SystemError("the copy");
  Checksum checksum;
  v1::BackupEnd end;
  std::string buffer(kChunkBytes, '\0');
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("the copy");
    if (got == 0) break;
    v1::BackupChunk chunk;
    if (end.bytes() == 0) chunk.set_total_bytes(status.st_size);
    chunk.set_data(buffer.data(), static_cast<size_t>(got));
    checksum.Add(chunk.data());
    end.set_bytes(end.bytes() + got);
    PACELINE_RETURN_IF_ERROR(stream->Send(std::move(chunk)));
  }
  end.set_checksum(ChecksumText(checksum.Take()));
  v1::BackupChunk last;
  *last.mutable_end() = end;
  PACELINE_RETURN_IF_ERROR(stream->Send(std::move(last)));
  return end.bytes();
}

grpc::Status ErrorOf(const absl::Status& status) {
  // Abseil and gRPC use the same numbers for codes.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const bool full = status.code() == absl::StatusCode::kResourceExhausted;
  return MakeError(code, full ? "BACKUP_NO_SPACE" : "BACKUP_FAILED",
                   absl::StrCat("no backup was made: ", status.message()));
}

grpc::Status SendBackup(const std::string& state_file, const std::string& peer,
                        BackupStream* stream) {
  const absl::Time begun = absl::Now();
  const absl::StatusOr<int> fd = OpenCopy(state_file, stream);
  const absl::Duration copied = absl::Now() - begun;
  absl::StatusOr<int64_t> sent = int64_t{0};
  if (fd.ok()) {
    sent = SendFile(*fd, stream);
    close(*fd);
  } else {
    sent = fd.status();
  }
  if (!sent.ok()) {
    PACELINE_LOG(WARNING) << "backup_failed peer=" << peer << " reason=" << sent.status().message();
    return ErrorOf(sent.status());
  }
  PACELINE_LOG(INFO) << "backup_sent peer=" << peer << " bytes=" << *sent << " copied_in=" << copied
                     << " took=" << absl::Now() - begun;
  return grpc::Status::OK;
}

}  // namespace

Backups::Backups(std::string state_file, const CallLimits* limits)
    : state_file_(std::move(state_file)), limits_(limits) {
  if (!state_file_.empty()) unlink(CopyPath(state_file_).c_str());
}

Backups::~Backups() {
  const absl::MutexLock lock(&mutex_);
  // The thread no longer needs the mutex: its stream is over.
  if (thread_.joinable()) thread_.join();
}

grpc::ServerWriteReactor<v1::BackupChunk>* Backups::Begin(grpc::CallbackServerContext* context) {
  auto* stream = new BackupStream(context, limits_);
  if (state_file_.empty()) {
    stream->Finish(MakeError(grpc::StatusCode::UNIMPLEMENTED, "BACKUP_ELSEWHERE",
                             "the controller's state is in no file of its own: back up the store "
                             "that holds it, with the store's own tools"));
    return stream;
  }
  const absl::MutexLock lock(&mutex_);
  if (busy_) {
    stream->Finish(MakeError(grpc::StatusCode::FAILED_PRECONDITION, "BACKUP_RUNNING",
                             "another backup is being made: try again when it is done"));
    return stream;
  }
  busy_ = true;
  // The previous thread has announced its end; it only has to return.
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this, peer = context->peer(), stream] {
    const grpc::Status status = SendBackup(state_file_, peer, stream);
    {
      const absl::MutexLock done(&mutex_);
      busy_ = false;
    }
    stream->Finish(status);
  });
  return stream;
}

}  // namespace paceline
