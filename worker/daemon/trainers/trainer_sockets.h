// The Unix socket at which the node's trainers report (proto/trainer.proto).
//
// A trainer says who it is with its first status and is answered with its command; later
// commands are sent when they change. A connection that breaks the protocol is closed; the
// trainer dials again. So is one of a process that is somebody else (SO_PEERCRED): of another user
// at once, of another process when it says whose trainer it is; it is told in the log, at most once
// a second, and counted. A trainer has one connection, its newest.
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
  // A status has some hundred bytes and the text of an error. The controller takes 16 MiB of a
  // node's report: the trainers of a large node must not fill it.
  static constexpr size_t kMaxStatusBytes = 64 << 10;
  // What a trainer has not taken of its commands; one that never reads is closed.
  static constexpr size_t kMaxUnsentBytes = 4 << 20;
  // Of one trainer before the loop looks at the others again.
  static constexpr size_t kMaxReadBytes = 256 << 10;

  // What a trainer told. After it returns, the command of that trainer is sent if it has one.
  using OnStatus = std::function<void(const TrainerId&, const v1::TrainerStatus&)>;

  enum class Refusal { kUser, kProcess };
  struct Peers {
    // The trainers' user, to whom the socket belongs. This process' own may speak, too.
    uid_t uid = 0;
    gid_t gid = 0;
    // Whether the process `pid` is this trainer. PermissionDenied: it is not, which is a refusal;
    // other errors: it cannot be told now, and it may dial again.
    std::function<absl::Status(const TrainerId&, pid_t pid)> vouch;
    std::function<void(Refusal)> on_refused;
  };

  struct Limits {
    // One that comes beyond them is closed at once,
    size_t connections = 1024;
    // unless there are some that have not said who they are for so long: those are.
    absl::Duration silence = absl::Seconds(10);
  };

  // `loop` and `poller` outlive this object.
  TrainerSockets(EventLoop& loop, FdPoller& poller, Peers peers, OnStatus on_status)
      : TrainerSockets(loop, poller, std::move(peers), std::move(on_status), Limits()) {}
  TrainerSockets(EventLoop& loop, FdPoller& poller, Peers peers, OnStatus on_status, Limits limits);
  // Closes all; removes the socket's file.
  ~TrainerSockets();
  TrainerSockets(const TrainerSockets&) = delete;
  TrainerSockets& operator=(const TrainerSockets&) = delete;

  // Replaces a socket that an earlier daemon left at `path`, in a directory that only this process'
  // user can write. InvalidArgument when the path is too long for a socket (107 bytes).
  absl::Status Listen(const std::string& path);

  // What the trainer shall be told, now if it is connected and has not been told already.
  void SetCommand(const TrainerId& id, const v1::TrainerCommand& command);

  // The trainer is gone: its command and its connections.
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
  // Those of the trainer but `newest`.
  void CloseOlder(const TrainerId& id, int newest);

  // Constant.
  EventLoop& loop_;
  FdPoller& poller_;
  const Peers peers_;
  const OnStatus on_status_;
  const Limits limits_;

  // Owned by the loop.
  int listener_ = -1;
  std::optional<EventLoop::TimerId> retry_;  // Of taking who dials.
  std::string path_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::map<TrainerId, std::string> commands_;  // Serialized.
  absl::Time refusal_told_ = absl::InfinitePast();
};

TrainerId IdFromProto(const v1::TrainerId& proto);
v1::TrainerId IdToProto(const TrainerId& id);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_SOCKETS_H_
