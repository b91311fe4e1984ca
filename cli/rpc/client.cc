#include "cli/rpc/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "cli/rpc/controllers.h"
#include "cli/rpc/error_text.h"
#include "common/core/backoff.h"
#include "common/leader_address.h"
#include "common/not_leader.h"
#include "common/user_metadata.h"
#include "common/uuid.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"  // How a message becomes bytes.

namespace paceline {
namespace {

constexpr int kKeepaliveMs = 30'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;
// How long connecting may take, even on a busy machine; then gRPC gives up the attempt.
constexpr int kConnectMs = 2000;
// Per message; a job of ten thousand ranks takes some megabytes.
constexpr int kMaxMessageBytes = 64 << 20;
constexpr absl::Duration kNoticeAfter = absl::Seconds(1);
// Limit of a user's name: all metadata of a call must not exceed some kilobytes.
constexpr size_t kMaxUserBytes = 256;
constexpr int kLookaheadBytes = 4 << 20;

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// `several`: there are other controllers to turn to when this one is unreachable.
std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& server, bool several,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, several ? Millis(kLeaderPing) : kKeepaliveMs);
  if (several) arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kLeaderUnreachableAfter));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // gRPC's own window grows with the connection's throughput: on a slow machine tens of MiB of a
  // log would wait in memory to be shown.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  // A proxy in the environment is for the web; a controller is reached directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(
      server, credentials == nullptr ? grpc::InsecureChannelCredentials() : credentials, arguments);
}

bool IsAway(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (ErrorReason(status).empty() || LeaderNamedIn(status).has_value());
}

// In the form that common/user_metadata.h requires.
std::string UserValue(absl::string_view user) {
  std::string value;
  for (const char c : user.substr(0, kMaxUserBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isgraph(byte) && c != '%') {
      value.push_back(c);
    } else {
      absl::StrAppendFormat(&value, "%%%02X", byte);
    }
  }
  return value;
}

// Abseil and gRPC use the same numbers for codes.
grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The operations of one call, which are begun and waited for one after the other.
class Operations {
 public:
  ~Operations() {
    queue_.Shutdown();
    Wait();
  }
  grpc::CompletionQueue* queue() { return &queue_; }
  // Whether the one that was begun went well.
  bool Wait() {
    void* tag = nullptr;
    bool went_well = false;
    return queue_.Next(&tag, &went_well) && went_well;
  }

 private:
  grpc::CompletionQueue queue_;
};

}  // namespace

// The controllers, and how calls to them are made.
struct Client::Connections {
  using MessageLite = google::protobuf::MessageLite;
  using Stub = grpc::TemplatedGenericStub<MessageLite, MessageLite>;

  Connections(const Options& wanted, Interrupt& raised)
      : options(wanted),
        interrupt(raised),
        controllers(SplitAddresses(options.server), options.credentials == nullptr,
                    [credentials = options.credentials](const std::string& server, bool several) {
                      return NewChannel(server, several, credentials);
                    }) {}

  // Returns an error if the call cannot be made.
  grpc::Status Prepare(absl::Time deadline, grpc::ClientContext* context) const;
  // One attempt.
  grpc::Status Ask(const char* path, const MessageLite& request, MessageLite* reply,
                   grpc::ClientContext* context) const;

  const Options& options;
  Interrupt& interrupt;
  Controllers controllers;
};

Client::Client(Options options, Interrupt& interrupt)
    : options_(std::move(options)),
      interrupt_(interrupt),
      connections_(std::make_unique<Connections>(options_, interrupt)) {}

Client::~Client() = default;

grpc::Status Client::Connections::Prepare(absl::Time deadline, grpc::ClientContext* context) const {
  context->set_deadline(absl::ToChronoTime(deadline));
  if (!options.user.empty()) context->AddMetadata(kUserMetadata, UserValue(options.user));
  if (!options.token) return grpc::Status::OK;
  const absl::StatusOr<std::string> token = options.token();
  if (!token.ok()) {
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(token.status().message()));
  }
  // Sent as "authorization: Bearer TOKEN", which gRPC keeps off unencrypted connections.
  context->set_credentials(grpc::AccessTokenCredentials(*token));
  return grpc::Status::OK;
}

grpc::Status Client::Connections::Ask(const char* path, const MessageLite& request,
                                      MessageLite* reply, grpc::ClientContext* context) const {
  const Interrupt::Listener listener(interrupt, [context] { context->TryCancel(); });
  grpc::Status status;
  Operations operations;
  const auto call =
      Stub(controllers.channel()).PrepareUnaryCall(context, path, request, operations.queue());
  call->StartCall();
  call->Finish(reply, &status, nullptr);
  operations.Wait();
  return status;
}

grpc::Status Client::CallUnary(const char* path, const google::protobuf::MessageLite& request,
                               google::protobuf::MessageLite* reply) {
  const Options& options = options_;
  Controllers& controllers = connections_->controllers;
  if (!options.problem.ok()) return ToGrpc(options.problem);
  const absl::Time begin = absl::Now();
  const absl::Time deadline = begin + options.timeout;
  Backoff backoff({absl::Milliseconds(50), absl::Seconds(1)}, RandomBits());
  bool reported = false;
  grpc::Status away;
  while (true) {
    const std::string server = controllers.address();
    const absl::Time limit =
        controllers.several() ? std::min(deadline, absl::Now() + kLeaderAnswer) : deadline;
    grpc::ClientContext context;
    const grpc::Status prepared = connections_->Prepare(limit, &context);
    if (!prepared.ok()) return prepared;
    grpc::Status status = connections_->Ask(path, request, reply, &context);
    if (limit < deadline && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is unreachable");
    }
    // A server that shuts down cancels its calls. Changes have a request id, so repeating is safe.
    if (status.error_code() == grpc::StatusCode::CANCELLED && ErrorReason(status).empty() &&
        !interrupt_.raised()) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "it shuts down");
    }
    // The last attempt may have no time left to find out that the server is away.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !away.ok()) return away;
    if (!IsAway(status)) {
      controllers.Answered(server);
      return status;
    }
    if (away.ok() && options.explain) {
      const std::string why = options.explain(server);
      if (!why.empty()) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why);
    }
    away = status;
    const bool at_once = controllers.Failed(server, status);
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return status;
    const bool is_long = absl::Now() - begin >= kNoticeAfter && left >= absl::Seconds(1);
    if (!reported && options.notice && is_long) {
      options.notice(absl::StrCat("the controller at ", options.server,
                                  " does not answer; trying for ", absl::ToInt64Seconds(left),
                                  " s more"));
      reported = true;
    }
    if (interrupt_.WaitFor(at_once ? absl::ZeroDuration() : std::min(left, backoff.Next()))) {
      return grpc::Status(grpc::StatusCode::CANCELLED, "interrupted");
    }
  }
}

grpc::Status Client::ReadStream(const char* path, const google::protobuf::MessageLite& request,
                                google::protobuf::MessageLite* message,
                                const std::function<bool()>& each, const StreamOptions& stream) {
  if (!options_.problem.ok()) return ToGrpc(options_.problem);
  Controllers& controllers = connections_->controllers;
  const std::string server = controllers.address();
  grpc::ClientContext context;
  const grpc::Status prepared = connections_->Prepare(
      std::min(stream.deadline, absl::Now() + options_.stream_limit), &context);
  if (!prepared.ok()) return prepared;
  const Interrupt::Listener listener(interrupt_, [&context] { context.TryCancel(); });
  Operations operations;
  const auto call =
      Connections::Stub(controllers.channel()).PrepareCall(&context, path, operations.queue());
  call->StartCall(nullptr);
  bool goes_on = operations.Wait();
  if (goes_on) {
    call->WriteLast(request, grpc::WriteOptions(), nullptr);
    goes_on = operations.Wait();
  }
  bool wanted = true;
  while (goes_on && wanted) {
    call->Read(message, nullptr);
    goes_on = operations.Wait();
    if (goes_on) wanted = each();
  }
  if (!wanted) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  operations.Wait();
  if (!wanted) return grpc::Status::OK;
  if (status.ok() && stream.endless) {
    status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ended the stream");
  }
  // A server that shuts down cancels its calls.
  if (IsAway(status) || status.error_code() == grpc::StatusCode::CANCELLED) {
    controllers.Failed(server, status);
  }
  return status;
}

}  // namespace paceline
