#include "worker/daemon/trainers/trainer_sockets.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "worker/link/frame.h"

namespace paceline {
namespace {

constexpr int kBacklog = 128;
constexpr absl::Duration kAcceptInterval = absl::Seconds(1);   // After a failure.
constexpr absl::Duration kRefusalInterval = absl::Seconds(1);  // Between lines in the log.

}  // namespace

struct TrainerSockets::Connection {
  int fd = -1;
  ucred peer{};
  absl::Time since;
  FrameDecoder decoder;
  std::string out;  // Bytes not yet written to the socket.
  std::optional<TrainerId> id;
  std::string sent;  // The last command sent.
};

TrainerSockets::TrainerSockets(EventLoop& loop, FdPoller& poller, Peers peers, OnStatus on_status,
                               Limits limits)
    : loop_(loop),
      poller_(poller),
      peers_(std::move(peers)),
      on_status_(std::move(on_status)),
      limits_(limits) {}

TrainerSockets::~TrainerSockets() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  if (listener_ < 0) return;
  if (retry_.has_value()) loop_.Cancel(*retry_);
  poller_.Disarm(listener_);
  ::close(listener_);
  ::unlink(path_.c_str());
}

absl::Status TrainerSockets::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the socket's path ", path, " is longer than ",
                                                   sizeof(address.sun_path) - 1,
                                                   " bytes; choose a shorter --runtime-dir"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) return absl::ErrnoToStatus(errno, "cannot make a socket");
  ::unlink(path.c_str());
  path_ = path;
  const bool gives_away = peers_.uid != ::geteuid();
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 ||
      (gives_away && ::lchown(path.c_str(), peers_.uid, peers_.gid) != 0) ||
      ::listen(listener_, kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", path));
  }
  AwaitDials();
  return absl::OkStatus();
}

void TrainerSockets::SetCommand(const TrainerId& id, const v1::TrainerCommand& command) {
  commands_[id] = command.SerializeAsString();
  std::vector<int> broken;
  for (auto& [fd, connection] : connections_) {
    if (!(connection->id == id)) continue;
    SendCommand(*connection);
    if (Flush(*connection)) {
      Arm(*connection);
    } else {
      broken.push_back(fd);
    }
  }
  for (const int fd : broken) Close(fd);
}

void TrainerSockets::Forget(const TrainerId& id) {
  commands_.erase(id);
  std::vector<int> gone;
  for (auto& [fd, connection] : connections_) {
    if (connection->id == id) gone.push_back(fd);
  }
  for (const int fd : gone) Close(fd);
}

void TrainerSockets::AwaitDials() {
  retry_.reset();
  poller_.Arm(listener_, EPOLLIN, [this] { OnAcceptable(); });
}

void TrainerSockets::OnAcceptable() {
  int fd = -1;
  while ((fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
    Accept(fd);
  }
  const int error = errno;
  if (error == EAGAIN || error == EINTR || error == ECONNABORTED) {
    AwaitDials();
    return;
  }
  // The listener stays readable until the dialler is accepted: retrying at once would loop forever.
  PACELINE_LOG(ERROR) << "trainer_accept_failed reason=\"" << std::strerror(error)
                      << "\" again_in=" << kAcceptInterval;
  retry_ = loop_.After(kAcceptInterval, [this] { AwaitDials(); });
}

void TrainerSockets::Accept(int fd) {
  auto connection = std::make_unique<Connection>();
  connection->fd = fd;
  connection->since = EventLoop::Now();
  ucred& peer = connection->peer;
  socklen_t size = sizeof(peer);
  // Credentials of the dialling process at the time when it dialled.
  const bool known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  const bool ours = known && (peer.uid == peers_.uid || peer.uid == ::geteuid());
  if (!ours) Refuse(Refusal::kUser, peer, absl::StrCat("trainers run as user ", peers_.uid));
  if (ours && connections_.size() >= limits_.connections) CloseSilent();
  if (!ours || connections_.size() >= limits_.connections) {
    ::close(fd);
    return;
  }
  Arm(*connection);
  connections_.emplace(fd, std::move(connection));
}

void TrainerSockets::Refuse(Refusal refusal, const ucred& peer, const std::string& why) {
  peers_.on_refused(refusal);
  const absl::Time now = EventLoop::Now();
  if (now - refusal_reported_ < kRefusalInterval) return;
  refusal_reported_ = now;
  PACELINE_LOG(WARNING) << "trainer_connection_refused pid=" << peer.pid << " uid=" << peer.uid
                        << " reason=\"" << why << "\"";
}

void TrainerSockets::OnReady(int fd) {
  Connection& connection = *connections_.at(fd);
  if (Read(connection) && Flush(connection)) {
    Arm(connection);
  } else {
    Close(fd);
  }
}

// False at the connection's end. Reads at most kMaxReadBytes; the rest waits for the next turn.
bool TrainerSockets::Read(Connection& connection) {
  std::array<char, 16384> buffer;
  for (size_t taken = 0; taken < kMaxReadBytes;) {
    const ssize_t size = ::read(connection.fd, buffer.data(), buffer.size());
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    taken += static_cast<size_t>(size);
    connection.decoder.Append(absl::string_view(buffer.data(), static_cast<size_t>(size)));
    while (true) {
      const absl::StatusOr<std::optional<std::string>> payload = connection.decoder.Next();
      if (!payload.ok()) {
        PACELINE_LOG(WARNING) << "trainer_message_refused reason=\"" << payload.status().message()
                              << "\"";
        return false;
      }
      if (!payload->has_value()) break;
      if (!OnPayload(connection, **payload)) return false;
    }
  }
  return true;
}

bool TrainerSockets::OnPayload(Connection& connection, const std::string& payload) {
  v1::TrainerStatus status;
  if (payload.size() > kMaxStatusBytes) {
    PACELINE_LOG(WARNING) << "trainer_message_refused reason=\"a status of " << payload.size()
                          << " bytes is beyond the limit of " << kMaxStatusBytes << "\"";
    return false;
  }
  if (!status.ParseFromString(payload)) {
    PACELINE_LOG(WARNING) << "trainer_message_refused reason=\"no TrainerStatus\"";
    return false;
  }
  const TrainerId id = IdFromProto(status.id());
  if (connection.id.has_value() && !(*connection.id == id)) {
    PACELINE_LOG(WARNING) << "trainer_message_refused reason=\"it changed its id\"";
    return false;
  }
  if (!connection.id.has_value()) {
    const absl::Status vouched = peers_.vouch(id, connection.peer.pid);
    if (absl::IsPermissionDenied(vouched)) {
      Refuse(Refusal::kProcess, connection.peer, std::string(vouched.message()));
    }
    if (!vouched.ok()) return false;
    CloseOlder(id, connection.fd);
  }
  connection.id = id;
  on_status_(id, status);
  SendCommand(connection);
  return true;
}

void TrainerSockets::SendCommand(Connection& connection) {
  const auto command = commands_.find(*connection.id);
  if (command == commands_.end() || command->second == connection.sent) return;
  connection.sent = command->second;
  connection.out += EncodeFrame(command->second);
}

bool TrainerSockets::Flush(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t size =
        ::send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (size < 0) {
      const bool goes_on = errno == EAGAIN || errno == EINTR;
      return goes_on && connection.out.size() <= kMaxUnsentBytes;
    }
    connection.out.erase(0, static_cast<size_t>(size));
  }
  return true;
}

void TrainerSockets::Arm(Connection& connection) {
  const uint32_t events = connection.out.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  poller_.Arm(connection.fd, events, [this, fd = connection.fd] { OnReady(fd); });
}

void TrainerSockets::Close(int fd) {
  poller_.Disarm(fd);
  ::close(fd);
  connections_.erase(fd);
}

void TrainerSockets::CloseSilent() {
  const absl::Time limit = EventLoop::Now() - limits_.silence;
  std::vector<int> silent;
  for (const auto& [fd, connection] : connections_) {
    if (!connection->id.has_value() && connection->since <= limit) silent.push_back(fd);
  }
  for (const int fd : silent) Close(fd);
}

void TrainerSockets::CloseOlder(const TrainerId& id, int newest) {
  std::vector<int> older;
  for (const auto& [fd, connection] : connections_) {
    if (fd != newest && connection->id == id) older.push_back(fd);
  }
  for (const int fd : older) Close(fd);
}

TrainerId IdFromProto(const v1::TrainerId& proto) {
  return {JobId(proto.job_id()), Generation(proto.generation()), Rank(proto.rank())};
}

v1::TrainerId IdToProto(const TrainerId& id) {
  v1::TrainerId proto;
  proto.set_job_id(id.job.value());
  proto.set_generation(id.generation.value());
  proto.set_rank(id.rank.value());
  return proto;
}

}  // namespace paceline
