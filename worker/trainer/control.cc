#include "worker/trainer/control.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/backoff.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "proto/trainer.pb.h"
#include "worker/link/frame.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/config_from_proto.h"
#include "worker/trainer/log_file.h"

namespace paceline {
namespace {

// How often the log's size is looked at, and how long the last words may take to send.
constexpr absl::Duration kLogCheckInterval = absl::Seconds(1);
constexpr absl::Duration kLastWordsDeadline = absl::Seconds(2);

// The monotonic clock, as a point after an arbitrary start.
absl::Time Now() { return absl::UnixEpoch() + absl::Nanoseconds(MonotonicNanos()); }

absl::StatusOr<v1::TrainerId> ParseId(const std::string& directory) {
  const std::vector<std::string> path = absl::StrSplit(directory, '/', absl::SkipEmpty());
  const std::vector<std::string> parts =
      absl::StrSplit(path.empty() ? std::string() : path.back(), '.');
  v1::TrainerId id;
  int64_t generation = 0;
  int32_t rank = 0;
  if (parts.size() != 3 || parts[0].empty() || !absl::SimpleAtoi(parts[1], &generation) ||
      !absl::SimpleAtoi(parts[2], &rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": the directory's name is not <job>.<generation>.<rank>"));
  }
  id.set_job_id(parts[0]);
  id.set_generation(generation);
  id.set_rank(rank);
  return id;
}

v1::FailureKind KindOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return v1::FAILURE_INPUT;
    case absl::StatusCode::kResourceExhausted:
      return v1::FAILURE_OUT_OF_MEMORY;
    case absl::StatusCode::kUnavailable:
      return v1::FAILURE_COLLECTIVE;
    default:
      return v1::FAILURE_ERROR;
  }
}

// -1 when nobody listens there.
int Dial(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return -1;  // Start has said so.
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // A daemon that does not read must not hold the thread for long.
  const timeval limit{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

bool SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

class SocketControl : public Control {
 public:
  SocketControl(const Options& options, v1::TrainerId id, LogFile log, int signal_fd)
      : options_(options),
        signal_fd_(signal_fd),
        wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        log_(std::move(log)),
        backoff_({}, static_cast<uint64_t>(getpid())) {
    *status_.mutable_id() = std::move(id);
    status_.set_pid(getpid());
    status_.set_state(v1::TRAINER_STARTING);
    thread_ = std::thread([this] { Run(); });
  }

  ~SocketControl() override {
    StopThread();
    close(wake_fd_);
    close(signal_fd_);
  }

  absl::StatusOr<TrainerConfig> WaitForConfig() override {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](SocketControl* self)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) { return self->command_.has_config(); },
        this));
    return ConfigFromProto(command_.config());
  }

  std::string WaitForStoreAddress() override {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](SocketControl* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
          return !self->command_.store_address().empty();
        },
        this));
    return command_.store_address();
  }

  void SetReady(int store_port) override {
    Change([&](v1::TrainerStatus* status) {
      status->set_state(v1::TRAINER_READY);
      status->set_store_port(store_port);
    });
  }

  void SetRunning() override {
    Change([](v1::TrainerStatus* status) { status->set_state(v1::TRAINER_RUNNING); });
  }

  void SetEvaluation(const EvaluationResult& result) override {
    Change([&](v1::TrainerStatus* status) {
      v1::EvaluationResult* evaluation = status->mutable_evaluation();
      evaluation->set_step(result.step);
      evaluation->set_accuracy(result.accuracy);
      evaluation->set_loss(result.loss);
      evaluation->set_samples(result.samples);
    });
  }

  int Finish(const absl::Status& status) override {
    const bool stopped = stop_requested();
    const bool failed = !status.ok() && !(stopped && absl::IsUnavailable(status));
    Change([&](v1::TrainerStatus* last) {
      if (failed) {
        last->mutable_error()->set_kind(KindOf(status));
        last->mutable_error()->set_message(std::string(status.message()));
      } else if (!stopped) {
        last->set_state(v1::TRAINER_FINISHED);
      }
    });
    if (failed) {
      PACELINE_LOG(ERROR) << "failed kind=" << v1::FailureKind_Name(KindOf(status)) << " "
                          << status.message();
    } else {
      PACELINE_LOG(INFO) << (stopped ? "stopped" : "finished");
    }
    WriteLastWords();
    StopThread();
    return failed ? 1 : 0;
  }

 private:
  template <typename F>
  void Change(F change) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      change(&status_);
      unsent_ = true;
    }
    Wake();
  }

  void Wake() {
    const uint64_t one = 1;
    // Fails only when the counter is full, and then the thread is awake anyway.
    if (write(wake_fd_, &one, sizeof(one)) < 0) return;
  }

  void StopThread() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

  void WriteLastWords() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string bytes;
    {
      absl::MutexLock lock(&mutex_);
      bytes = status_.SerializeAsString();
    }
    const absl::Status written = WriteFileAtomically(options_.directory + "/status", {bytes});
    if (!written.ok()) PACELINE_LOG(ERROR) << "last words lost: " << written.message();
  }

  // The thread.
  void Run();
  void Poll(absl::Duration limit);
  void Connect();
  void Disconnect();
  void Receive();
  void SendStatus() ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeSignal() ABSL_LOCKS_EXCLUDED(mutex_);
  void TurnOverLog();
  bool MayLeave() ABSL_LOCKS_EXCLUDED(mutex_);
  [[noreturn]] void EndProcess(int code);

  const Options options_;
  const int signal_fd_;
  const int wake_fd_;

  // Owned by the thread.
  LogFile log_;
  bool log_failed_ = false;
  Backoff backoff_;
  int socket_ = -1;
  FrameDecoder decoder_;
  bool was_connected_ = false;
  absl::Time next_dial_ = absl::InfinitePast();
  absl::Time alone_since_ = Now();
  absl::Time leave_at_ = absl::InfiniteFuture();

  absl::Mutex mutex_;
  v1::TrainerStatus status_ ABSL_GUARDED_BY(mutex_);
  v1::TrainerCommand command_ ABSL_GUARDED_BY(mutex_);
  bool unsent_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

void SocketControl::Run() {
  while (!MayLeave()) {
    if (socket_ < 0 && Now() >= next_dial_) Connect();
    if (socket_ >= 0) SendStatus();
    if (MayLeave()) break;
    Poll(socket_ < 0 ? std::min(kLogCheckInterval, next_dial_ - Now()) : kLogCheckInterval);
    TurnOverLog();
    if (socket_ < 0 && Now() - alone_since_ > options_.orphan_timeout) {
      {
        absl::MutexLock lock(&mutex_);
        status_.mutable_error()->set_kind(v1::FAILURE_ORPHANED);
        status_.mutable_error()->set_message(
            absl::StrCat("no daemon for ", absl::FormatDuration(options_.orphan_timeout)));
      }
      EndProcess(1);
    }
  }
  if (socket_ >= 0) close(socket_);
}

void SocketControl::Poll(absl::Duration limit) {
  pollfd fds[] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}, {socket_, POLLIN, 0}};
  const int timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(
      absl::Ceil(std::max(limit, absl::ZeroDuration()), absl::Milliseconds(1))));
  if (poll(fds, 3, timeout_ms) <= 0) return;
  if (fds[0].revents != 0) TakeSignal();
  if (fds[1].revents != 0) {
    uint64_t ignored;
    if (read(wake_fd_, &ignored, sizeof(ignored)) < 0) return;
  }
  if (fds[2].revents != 0) Receive();
}

void SocketControl::Connect() {
  socket_ = Dial(options_.socket);
  if (socket_ < 0) {
    next_dial_ = Now() + backoff_.Next();
    return;
  }
  backoff_.Reset();
  decoder_ = FrameDecoder();
  if (was_connected_) PACELINE_LOG(INFO) << "daemon_back";
  was_connected_ = true;
  absl::MutexLock lock(&mutex_);
  unsent_ = true;
}

void SocketControl::Disconnect() {
  close(socket_);
  socket_ = -1;
  alone_since_ = Now();
  next_dial_ = alone_since_ + backoff_.Next();
  PACELINE_LOG(WARNING) << "daemon_lost, dialling " << options_.socket << " until it is back";
}

void SocketControl::Receive() {
  char buffer[16384];
  const ssize_t size = recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size <= 0) return Disconnect();
  decoder_.Append({buffer, static_cast<size_t>(size)});
  while (true) {
    absl::StatusOr<std::optional<std::string>> next = decoder_.Next();
    std::optional<std::string> payload;
    if (next.ok()) {
      payload = *std::move(next);
      if (!payload.has_value()) return;
    }
    v1::TrainerCommand command;
    if (!payload.has_value() || !command.ParseFromString(*payload)) {
      PACELINE_LOG(WARNING) << "unreadable command from the daemon";
      return Disconnect();
    }
    absl::MutexLock lock(&mutex_);
    // The first configuration holds: it is constant for the life of the process.
    if (command_.has_config()) *command.mutable_config() = command_.config();
    if (command.store_address().empty()) command.set_store_address(command_.store_address());
    command_ = std::move(command);
  }
}

void SocketControl::SendStatus() {
  std::string frame;
  {
    absl::MutexLock lock(&mutex_);
    if (!unsent_) return;
    unsent_ = false;
    frame = EncodeFrame(status_.SerializeAsString());
  }
  if (SendAll(socket_, frame)) return;
  {
    absl::MutexLock lock(&mutex_);
    unsent_ = true;
  }
  Disconnect();
}

void SocketControl::TakeSignal() {
  signalfd_siginfo info;
  if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
  PACELINE_LOG(INFO) << "stop_requested";
  bool training;
  {
    absl::MutexLock lock(&mutex_);
    training = status_.state() == v1::TRAINER_RUNNING || status_.state() == v1::TRAINER_FINISHED;
  }
  if (!training) EndProcess(0);
  stop_requested_.store(true, std::memory_order_relaxed);
}

void SocketControl::TurnOverLog() {
  if (log_failed_) return;
  const absl::Status status = log_.RotateIfFull();
  // Goes on in the old segment; saying so each time would only make it longer.
  if (!status.ok()) PACELINE_LOG(ERROR) << "log not rotated any more: " << status.message();
  log_failed_ = !status.ok();
}

bool SocketControl::MayLeave() {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) return false;
  if (leave_at_ == absl::InfiniteFuture()) leave_at_ = Now() + kLastWordsDeadline;
  return !unsent_ || socket_ < 0 || Now() > leave_at_;
}

void SocketControl::EndProcess(int code) {
  WriteLastWords();
  _exit(code);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Control>> Control::Start(const Options& options) {
  PACELINE_ASSIGN_OR_RETURN(v1::TrainerId id, ParseId(options.directory));
  if (options.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.socket, ": a socket's path may have at most ",
                     sizeof(sockaddr_un::sun_path) - 1, " characters"));
  }
  PACELINE_ASSIGN_OR_RETURN(LogFile log,
                            LogFile::Attach(options.directory + "/log", options.log_segment_bytes));
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const int signal_fd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) return absl::InternalError(absl::StrCat("signalfd: ", strerror(errno)));
  return std::unique_ptr<Control>(
      std::make_unique<SocketControl>(options, std::move(id), std::move(log), signal_fd));
}

}  // namespace paceline
