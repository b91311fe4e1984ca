// The daemon's stream to its controller: dialled, kept, and dialled again with growing delays
// when it is lost.
//
//            Start, delay over            Welcome accepted
//   AWAY ----------------------> GREETING ----------------> CONNECTED
//     ^   lost, refused, silent      |       lost, or Close       |
//     +------------------------------+----------------------------+
//
// Messages are pulled from the owner one at a time, when the one before is on its way, so
// nothing queues up here: an unsent report is always the newest. Losses are logged once per
// outage and kind, and so is the return.
//
// Of several controllers each is tried in turn, but first the one that a standby names as the
// leader (common/leader_address.h); one that is silent is left sooner.
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
  // What the session needs of the node. Called on the loop.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual v1::Hello MakeHello() = 0;
    // The first message of a session. An error refuses the controller; it is tried again later.
    virtual absl::Status OnWelcome(const v1::Welcome& welcome) = 0;
    // Any later message.
    virtual void OnMessage(const v1::ControllerMessage& message) = 0;
    // The next thing to say, if there is one; asked for after each Wake and each message sent.
    virtual std::optional<v1::WorkerMessage> NextMessage() = 0;
    // After an OnWelcome that accepted.
    virtual void OnLost() = 0;
    // The controller at `address`, which was asked at `sent` (BootNow), has answered that it stands
    // by. `leader`: whom it named; empty: nobody. Certain like a Welcome: of the same channel.
    virtual void OnStandby(const std::string& address, absl::Time sent,
                           const std::string& leader) = 0;
  };

  struct Options {
    std::string controller;  // host:port, or several with commas between them.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // Null: plain text.
    std::function<void()> unreachable = {};  // On the loop, once per outage.
    // However long the controller was away, all its workers are back within 5 s: each at a moment
    // of its own in the last half of the longest delay.
    Backoff::Options backoff = {absl::Milliseconds(100), absl::Seconds(4)};
    uint64_t seed = 0;  // Of the delays' jitter.
    // For a Welcome to come; of several controllers kLeaderAnswer at most.
    absl::Duration greeting_limit = absl::Seconds(10);
  };

  // `loop` and `owner` outlive this object.
  Session(EventLoop& loop, Options options, Owner& owner);
  // Requires: never started, or closed, or the loop runs no more.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start();

  // There is something to say.
  void Wake();

  // Ends the stream for good and runs `closed` when it is gone.
  void Close(std::function<void()> closed);

  bool connected() const { return state_ == State::kConnected; }

  // Times that a connection came back.
  int64_t reconnects() const { return reconnects_; }

 private:
  class Stream;
  enum class State { kAway, kGreeting, kConnected };

  void Dial();
  void OnRead(const v1::ControllerMessage& message);
  // `leader`: set if a standby has answered; whom it named.
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
  absl::Time dialled_;                        // The stream's controller, BootNow.
  absl::Status refusal_;                      // Why we ended the stream ourselves.
  std::optional<EventLoop::TimerId> timer_;   // Next dial, or end of the greeting.
  std::set<absl::StatusCode> losses_logged_;  // In this outage.
  bool was_connected_ = false;
  int64_t reconnects_ = 0;
  std::function<void()> closed_;  // Set once it is closing.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_SESSION_H_
