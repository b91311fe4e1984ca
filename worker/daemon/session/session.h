// The daemon's stream to its controller. Dials it, keeps it open, and redials with growing delays
// when it is lost.
//
//            Start, delay over            Welcome accepted
//   AWAY ----------------------> GREETING ----------------> CONNECTED
//     ^   lost, refused, silent      |       lost, or Close       |
//     +------------------------------+----------------------------+
//
// Messages are pulled from the owner one at a time, after the one before was sent, so nothing
// queues up here: an unsent report is always the newest. Losses are logged once per outage and
// kind; so is the reconnection.
//
// Several controllers are tried in turn, beginning with the one that a standby names as leader
// (common/leader_address.h). An unreachable one is then given up sooner.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_SESSION_SESSION_H_
#define WORKER_DAEMON_SESSION_SESSION_H_

#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/core/backoff.h"
#include "common/event_loop.h"
#include "common/leader_address.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {

class Session {
 public:
  // What the session needs from the node. Called on the loop.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual v1::Hello MakeHello() = 0;
    // The first message of a session. An error rejects the controller; it is tried again later.
    virtual absl::Status OnWelcome(const v1::Welcome& welcome) = 0;
    // Any other message.
    virtual void OnMessage(const v1::ControllerMessage& message) = 0;
    // Returns the next message to send, if any; called after each Wake and each message sent.
    virtual std::optional<v1::WorkerMessage> NextMessage() = 0;
    // The session was lost after OnWelcome had returned OK.
    virtual void OnLost() = 0;
    // The controller at `address`, asked at `sent` (BootNow), answered that it stands by and named
    // `leader`, or nobody if empty. As trustworthy as a Welcome: it came on the same channel.
    virtual void OnStandby(const std::string& address, absl::Time sent,
                           const std::string& leader) = 0;
  };

  struct Options {
    std::string controller;  // host:port, or several separated by commas.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // Null: plain text.
    std::function<void()> unreachable = {};  // Called on the loop, once per outage.
    // However long the controller was away, all its workers return within 5 s, spread over the
    // second half of the longest delay.
    Backoff::Options backoff = {absl::Milliseconds(100), absl::Seconds(4)};
    uint64_t seed = 0;  // For the jitter of the delays.
    // How long to wait for a Welcome; with several controllers, at most kLeaderAnswer.
    absl::Duration greeting_limit = absl::Seconds(10);
  };

  // `loop` and `owner` outlive this object.
  Session(EventLoop& loop, Options options, Owner& owner);
  // Requires: never started, or closed, or the loop has stopped.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start();

  // Call when the owner has a message to send.
  void Wake();

  // Ends the stream for good and runs `closed` when it is gone.
  void Close(std::function<void()> closed);

  bool connected() const { return state_ == State::kConnected; }

  // Number of reconnections.
  int64_t reconnects() const { return reconnects_; }

 private:
  class Stream;
  enum class State { kAway, kGreeting, kConnected };

  void Dial();
  void OnRead(const v1::ControllerMessage& message);
  // `leader` is set if a standby has answered: the leader it named.
  void OnStreamDone(const absl::Status& status, const std::optional<std::string>& leader);
  void LogLoss(const absl::Status& status);
  void LogReturn();

  // Constant.
  EventLoop& loop_;
  const Options options_;
  Owner& owner_;

  // Owned by the loop.
  LeaderAddress leader_;
  Backoff backoff_;
  State state_ = State::kAway;
  std::unique_ptr<Stream> stream_;
  absl::Time dialled_;                        // When the current stream was dialled, BootNow.
  absl::Status refusal_;                      // Why we ended the stream ourselves.
  std::optional<EventLoop::TimerId> timer_;   // Next dial, or greeting_limit.
  std::set<absl::StatusCode> losses_logged_;  // Logged in this outage.
  bool was_connected_ = false;
  int64_t reconnects_ = 0;
  std::function<void()> closed_;  // Set while closing.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_SESSION_H_
