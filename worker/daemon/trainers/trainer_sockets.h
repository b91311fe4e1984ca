// The Unix socket at which the node's trainers report (proto/trainer.proto).
//
// A trainer names itself in its first status and gets its command in answer; later commands are
// sent when they change. A connection that breaks the protocol is closed, and the trainer dials
// again. A connection of somebody else (SO_PEERCRED) is also closed: of another user at once, of
// another process when it claims a trainer. Such refusals are counted, and logged at most once a
// second. A trainer has one connection, its newest.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_SOCKETS_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_SOCKETS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/event_loop.h"
#include "proto/trainer.pb.h"
#include "worker/daemon/trainers/fd_poller.h"

namespace paceline {

class TrainerSockets {
 public:
  // A status has some hundred bytes plus an error's text. The controller accepts node reports up to
  // 16 MiB, which the trainers of a large node must not fill.
  static constexpr size_t kMaxStatusBytes = 64 << 10;
  // Unsent bytes of commands per trainer. A trainer that never reads is disconnected.
  static constexpr size_t kMaxUnsentBytes = 4 << 20;
  // Bytes read from one trainer before the loop serves the others.
  static constexpr size_t kMaxReadBytes = 256 << 10;

  // Called with a trainer's status. After it returns, the trainer is sent its command, if any.
  using OnStatus = std::function<void(const TrainerId&, const v1::TrainerStatus&)>;

  enum class Refusal { kUser, kProcess };
  struct Peers {
    // The trainers' user, who owns the socket. This process's own user may connect, too.
    uid_t uid = 0;
    gid_t gid = 0;
    // Checks that process `pid` is this trainer. PermissionDenied: it is not, and is refused. Other
    // errors: unknown for now; it may dial again.
    std::function<absl::Status(const TrainerId&, pid_t pid)> vouch;
    std::function<void(Refusal)> on_refused;
  };

  struct Limits {
    // Maximum number. More are closed at once, unless silent ones can be closed instead.
    size_t connections = 1024;
    // A connection whose trainer is still unknown after this time counts as silent.
    absl::Duration silence = absl::Seconds(10);
  };

  // `loop` and `poller` outlive this object.
  TrainerSockets(EventLoop& loop, FdPoller& poller, Peers peers, OnStatus on_status)
      : TrainerSockets(loop, poller, std::move(peers), std::move(on_status), Limits()) {}
  TrainerSockets(EventLoop& loop, FdPoller& poller, Peers peers, OnStatus on_status, Limits limits);
  // Closes all connections and removes the socket's file.
  ~TrainerSockets();
  TrainerSockets(const TrainerSockets&) = delete;
  TrainerSockets& operator=(const TrainerSockets&) = delete;

  // Replaces a socket left by an earlier daemon at `path`. Only this process's user may be able to
  // write the directory. InvalidArgument when the path is too long for a socket (107 bytes).
  absl::Status Listen(const std::string& path);

  // Sets the trainer's command. Sends it if the trainer is connected and does not have it yet.
  void SetCommand(const TrainerId& id, const v1::TrainerCommand& command);

  // Removes the command and the connections of a trainer that is gone.
  void Forget(const TrainerId& id);

 private:
  struct Connection;

  void AwaitDials();
  void OnAcceptable();
  void Accept(int fd);
  void Refuse(Refusal refusal, const ucred& peer, const std::string& why);
  void OnReady(int fd);
  bool Read(Connection& connection);
  bool OnPayload(Connection& connection, const std::string& payload);
  bool Flush(Connection& connection);
  void SendCommand(Connection& connection);
  void Arm(Connection& connection);
  void Close(int fd);
  void CloseSilent();
  // Closes all connections of the trainer except `newest`.
  void CloseOlder(const TrainerId& id, int newest);

  // Constant.
  EventLoop& loop_;
  FdPoller& poller_;
  const Peers peers_;
  const OnStatus on_status_;
  const Limits limits_;

  // Owned by the loop.
  int listener_ = -1;
  std::optional<EventLoop::TimerId> retry_;  // To accept again.
  std::string path_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::map<TrainerId, std::string> commands_;  // Serialized messages.
  absl::Time refusal_reported_ = absl::InfinitePast();
};

TrainerId IdFromProto(const v1::TrainerId& proto);
v1::TrainerId IdToProto(const TrainerId& id);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_SOCKETS_H_
