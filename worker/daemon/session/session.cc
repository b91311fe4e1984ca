#include "worker/daemon/session/session.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/log.h"
#include "common/not_leader.h"

namespace paceline {
namespace {

constexpr int kKeepaliveMillis = 10'000;
constexpr int kKeepaliveTimeoutMillis = 5'000;
constexpr int kConnectMillis = 5'000;
constexpr int kMaxMessageBytes = 64 << 20;

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const LeaderAddress& leader, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   leader.several() ? Millis(kLeaderPing) : kKeepaliveMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   leader.several() ? Millis(kLeaderUnreachableAfter) : kKeepaliveTimeoutMillis);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMillis);
  // Each attempt has its own channel, so that the only back-off is the session's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy in the environment is for the outside world.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(
      leader.current(), credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials,
      arguments);
}

Backoff::Options Delays(Backoff::Options options, const LeaderAddress& leader) {
  if (leader.several()) options.max = std::min(options.max, kLeaderRetry);
  return options;
}

// Maps codes that only say that the controller cannot be reached to one code.
absl::StatusCode LossKind(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return absl::StatusCode::kUnavailable;
    default:
      return status.code();
  }
}

}  // namespace

// One call. Its methods run on the loop; gRPC's callbacks run elsewhere and only post. It is
// destroyed on the loop after gRPC reports the call's end, behind all tasks posted before.
class Session::Stream : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::ControllerMessage> {
 public:
  explicit Stream(Session& session)
      : session_(session),
        channel_(MakeChannel(session.leader_, session.options_.credentials)),
        stub_(v1::WorkerService::NewStub(channel_)) {
    stub_->async()->Session(&context_, this);
    // Writes begin outside gRPC's callbacks, so the call must be held open.
    AddHold();
    StartRead(&incoming_);
  }

  void Begin(v1::Hello hello) {
    *outgoing_.mutable_hello() = std::move(hello);
    writing_ = true;
    StartWrite(&outgoing_);
    StartCall();
  }

  // Sends the owner's next message, unless one is being sent.
  void Pump() {
    if (writing_ || ended_) return;
    std::optional<v1::WorkerMessage> message = session_.owner_.NextMessage();
    if (!message.has_value()) return;
    outgoing_ = *std::move(message);
    writing_ = true;
    StartWrite(&outgoing_);
  }

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    session_.loop_.Post([this, ok] {
      if (!ok) return End();
      session_.OnRead(incoming_);
      StartRead(&incoming_);
    });
  }

  void OnWriteDone(bool ok) override {
    session_.loop_.Post([this, ok] {
      // After a failed write the read fails, too, and the call ends.
      writing_ = !ok;
      if (ok && session_.connected()) Pump();
    });
  }

  void OnDone(const grpc::Status& status) override {
    const absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                              status.error_message());
    session_.loop_.Post(
        [this, result, leader = LeaderNamedIn(status)] { session_.OnStreamDone(result, leader); });
  }

  void End() {
    if (ended_) return;
    ended_ = true;
    RemoveHold();
  }

  Session& session_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::ControllerMessage incoming_;
  v1::WorkerMessage outgoing_;
  bool writing_ = false;
  bool ended_ = false;
};

Session::Session(EventLoop& loop, Options options, Owner& owner)
    : loop_(loop),
      options_(std::move(options)),
      owner_(owner),
      leader_(SplitAddresses(options_.controller), options_.credentials == nullptr),
      backoff_(Delays(options_.backoff, leader_), options_.seed) {}

Session::~Session() = default;

void Session::Start() { Dial(); }

void Session::Wake() {
  if (state_ == State::kConnected) stream_->Pump();
}

void Session::Close(std::function<void()> closed) {
  loop_.CheckOnLoop();
  closed_ = std::move(closed);
  if (timer_.has_value()) loop_.Cancel(*timer_);
  if (stream_ == nullptr) return closed_();
  stream_->Cancel();
}

void Session::Dial() {
  loop_.CheckOnLoop();
  state_ = State::kGreeting;
  refusal_ = absl::OkStatus();
  dialled_ = BootNow();
  stream_ = std::make_unique<Stream>(*this);
  stream_->Begin(owner_.MakeHello());
  const absl::Duration limit = leader_.several() ? std::min(options_.greeting_limit, kLeaderAnswer)
                                                 : options_.greeting_limit;
  timer_ = loop_.After(limit, [this] {
    timer_.reset();
    if (state_ != State::kGreeting) return;
    refusal_ = absl::DeadlineExceededError("it does not answer");
    stream_->Cancel();
  });
}

void Session::OnRead(const v1::ControllerMessage& message) {
  if (closed_ || !refusal_.ok()) return;
  if (state_ == State::kConnected) return owner_.OnMessage(message);
  refusal_ = message.has_welcome() ? owner_.OnWelcome(message.welcome())
                                   : absl::InternalError("its first message is no Welcome");
  if (!refusal_.ok()) return stream_->Cancel();
  state_ = State::kConnected;
  if (timer_.has_value()) loop_.Cancel(*timer_);
  timer_.reset();
  backoff_.Reset();
  leader_.Answered();
  LogReturn();
  stream_->Pump();
}

void Session::OnStreamDone(const absl::Status& status, const std::optional<std::string>& leader) {
  const bool was_connected = state_ == State::kConnected;
  state_ = State::kAway;
  stream_.reset();
  if (timer_.has_value()) loop_.Cancel(*timer_);
  timer_.reset();
  if (was_connected) owner_.OnLost();
  if (closed_) return closed_();
  LogLoss(refusal_.ok() ? status : refusal_);
  if (leader.has_value() && refusal_.ok()) {
    owner_.OnStandby(leader_.current(), dialled_, *leader);
  }
  const bool at_once = leader_.Failed(leader.value_or(""));
  timer_ = loop_.After(at_once ? absl::ZeroDuration() : backoff_.Next(), [this] {
    timer_.reset();
    Dial();
  });
}

void Session::LogLoss(const absl::Status& status) {
  const absl::StatusCode kind = LossKind(status);
  if (!losses_logged_.insert(kind).second) return;
  if (kind == absl::StatusCode::kUnavailable) {
    PACELINE_LOG(WARNING) << "controller_unreachable address=" << leader_.current() << " reason=\""
                          << status.message() << "\" retrying, trainers run on";
    if (options_.unreachable) options_.unreachable();
  } else {
    PACELINE_LOG(ERROR) << "controller_refused address=" << leader_.current()
                        << " code=" << absl::StatusCodeToString(kind) << " reason=\""
                        << status.message() << "\" retrying";
  }
}

void Session::LogReturn() {
  PACELINE_LOG(INFO) << (was_connected_ ? "controller_back" : "controller_connected")
                     << " address=" << leader_.current();
  if (was_connected_) ++reconnects_;
  was_connected_ = true;
  losses_logged_.clear();
}

}  // namespace paceline
