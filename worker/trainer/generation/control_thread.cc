#include "worker/trainer/generation/control_thread.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/forked_child.h"
#include "common/log.h"
#include "proto/trainer.pb.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

// How often the log's size is checked, and how long sending the last words may take.
constexpr absl::Duration kLogCheckInterval = absl::Seconds(1);
constexpr absl::Duration kLastWordsDeadline = absl::Seconds(2);

// The monotonic clock, as a point after an arbitrary start.
absl::Time Now() { return absl::UnixEpoch() + absl::Nanoseconds(MonotonicNanos()); }

// Returns -1 when nobody listens there.
int Dial(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return -1;  // Start has reported this.
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // A daemon that does not read must not block the thread for long.
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

}  // namespace

ControlThread::ControlThread(const Control::Options& options, ControlState& state,
                             std::optional<LogFile> log, std::unique_ptr<StopSignal> signal,
                             std::function<void()> on_stop)
    : options_(options),
      state_(state),
      signal_(std::move(signal)),
      on_stop_(std::move(on_stop)),
      log_(std::move(log)),
      backoff_({}, static_cast<uint64_t>(getpid())),
      alone_since_(Now()) {
  thread_ = std::thread([this] { Run(); });
}

ControlThread::~ControlThread() { Stop(); }

void ControlThread::Stop() {
  if (IsForkedChild()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  stopping_ = true;
  state_.Wake();
  if (thread_.joinable()) thread_.join();
  signal_->Restore();
}

void ControlThread::Run() {
  while (!MayLeave()) {
    if (socket_ < 0 && Now() >= next_dial_) Connect();
    if (socket_ >= 0) SendStatus();
    if (MayLeave()) break;
    Poll(socket_ < 0 ? std::min(kLogCheckInterval, next_dial_ - Now()) : kLogCheckInterval);
    EndIfAsked();
    state_.CallListeners();
    TurnOverLog();
    LeaveIfOrphaned();
  }
  if (socket_ >= 0) close(socket_);
}

void ControlThread::Poll(absl::Duration limit) {
  pollfd fds[] = {{signal_->fd(), POLLIN, 0}, {state_.wake_fd(), POLLIN, 0}, {socket_, POLLIN, 0}};
  const int timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(
      absl::Ceil(std::max(limit, absl::ZeroDuration()), absl::Milliseconds(1))));
  if (poll(fds, 3, timeout_ms) <= 0) return;
  if (fds[0].revents != 0) TakeSignal();
  if (fds[1].revents != 0) state_.TakeWake();
  if (fds[2].revents != 0) Receive();
}

void ControlThread::Connect() {
  socket_ = Dial(options_.socket);
  if (socket_ < 0) {
    next_dial_ = Now() + backoff_.Next();
    return;
  }
  backoff_.Reset();
  decoder_ = FrameDecoder();
  if (was_connected_) PACELINE_LOG(INFO) << "daemon_back";
  was_connected_ = true;
  state_.MarkUnsent();
}

void ControlThread::Disconnect() {
  close(socket_);
  socket_ = -1;
  alone_since_ = Now();
  next_dial_ = alone_since_ + backoff_.Next();
  PACELINE_LOG(WARNING) << "daemon_lost, dialling " << options_.socket << " until it is back";
}

void ControlThread::Receive() {
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
    state_.SetCommand(std::move(command));
  }
}

void ControlThread::SendStatus() {
  const std::optional<std::string> status = state_.TakeUnsent();
  if (!status.has_value() || SendAll(socket_, EncodeFrame(*status))) return;
  state_.MarkUnsent();
  Disconnect();
}

void ControlThread::TakeSignal() {
  if (!signal_->Take()) return;
  const v1::TrainerState state = state_.state();
  if (state != v1::TRAINER_RUNNING && state != v1::TRAINER_FINISHED) {
    PACELINE_LOG(INFO) << "stop_requested";
    if (!options_.guest) EndProcess(0);
    on_stop_();  // If the process goes on nevertheless, it does not train.
    state_.WriteLastWords();
    signal_->LetThrough();
    return;
  }
  asked_to_end_ = true;
  if (state_.ends_when_asked()) return;
  PACELINE_LOG(INFO) << "asked_to_end, going on until the daemon says so";
  state_.Change([](v1::TrainerStatus* status) { status->set_asked_to_end(true); });
}

void ControlThread::EndIfAsked() {
  if (!asked_to_end_ || !state_.ends_when_asked()) return;
  PACELINE_LOG(INFO) << "stop_requested";
  asked_to_end_ = false;
  on_stop_();
}

void ControlThread::TurnOverLog() {
  if (!log_.has_value() || log_failed_) return;
  const absl::Status status = log_->RotateIfFull();
  // Continues in the old segment; repeating the error would only make it longer.
  if (!status.ok()) PACELINE_LOG(ERROR) << "log not rotated any more: " << status.message();
  log_failed_ = !status.ok();
}

void ControlThread::LeaveIfOrphaned() {
  if (socket_ >= 0 || Now() - alone_since_ <= options_.orphan_timeout) return;
  state_.Change([&](v1::TrainerStatus* status) {
    status->mutable_error()->set_kind(v1::FAILURE_ORPHANED);
    status->mutable_error()->set_message(
        absl::StrCat("no daemon for ", absl::FormatDuration(options_.orphan_timeout)));
  });
  EndProcess(1);
}

bool ControlThread::MayLeave() {
  if (!stopping_) return false;
  if (leave_at_ == absl::InfiniteFuture()) leave_at_ = Now() + kLastWordsDeadline;
  return !state_.unsent() || socket_ < 0 || Now() > leave_at_;
}

void ControlThread::EndProcess(int code) {
  state_.WriteLastWords();
  _exit(code);
}

}  // namespace paceline
