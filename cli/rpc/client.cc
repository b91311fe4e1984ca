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
#include "grpcpp/grpcpp.h"
#include "proto/admin.grpc.pb.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/identity.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "proto/job_history.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/straggler.pb.h"
#include "proto/telemetry.grpc.pb.h"

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

// `several`: there are other controllers to turn to when this one is silent.
std::shared_ptr<grpc::Channel> NewChannel(
    const std::string& server, bool several,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, several ? Millis(kLeaderPing) : kKeepaliveMs);
  if (several) arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kLeaderSilence));
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

}  // namespace

// Stubs of the services, and how they are called.
struct Client::Calls {
  Calls(const Options& wanted, Interrupt& raised)
      : options(wanted),
        interrupt(raised),
        controllers(SplitAddresses(options.server), options.credentials == nullptr,
                    [credentials = options.credentials](const std::string& server, bool several) {
                      return NewChannel(server, several, credentials);
                    }) {}

  // Returns an error if the call cannot be made.
  grpc::Status Prepare(absl::Time deadline, grpc::ClientContext* context) const;
  template <typename Call>
  grpc::Status Unary(const Call& call);
  template <typename Message, typename Open>
  grpc::Status Stream(const Open& open, const std::function<bool(const Message&)>& each,
                      bool endless, absl::Time deadline);

  const Options& options;
  Interrupt& interrupt;
  Controllers controllers;
  const StubOf<v1::JobService> jobs{controllers};
  const StubOf<v1::CheckpointService> checkpoints{controllers};
  const StubOf<v1::NodeService> nodes{controllers};
  const StubOf<v1::AutomationService> automation{controllers};
  const StubOf<v1::AdminService> admin{controllers};
  const StubOf<v1::JobHistoryService> histories{controllers};
  const StubOf<v1::TelemetryService> telemetry{controllers};
  const StubOf<v1::IdentityService> identity{controllers};
};

Client::Client(Options options, Interrupt& interrupt)
    : options_(std::move(options)),
      interrupt_(interrupt),
      calls_(std::make_unique<Calls>(options_, interrupt)) {}

Client::~Client() = default;

grpc::Status Client::Calls::Prepare(absl::Time deadline, grpc::ClientContext* context) const {
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

template <typename Call>
grpc::Status Client::Calls::Unary(const Call& call) {
  if (!options.problem.ok()) return ToGrpc(options.problem);
  const absl::Time begin = absl::Now();
  const absl::Time deadline = begin + options.timeout;
  Backoff backoff({absl::Milliseconds(50), absl::Seconds(1)}, RandomBits());
  bool told = false;
  grpc::Status away;
  while (true) {
    const std::string server = controllers.address();
    const absl::Time limit =
        controllers.several() ? std::min(deadline, absl::Now() + kLeaderAnswer) : deadline;
    grpc::ClientContext context;
    const grpc::Status prepared = Prepare(limit, &context);
    if (!prepared.ok()) return prepared;
    grpc::Status status = [&] {
      const Interrupt::Listener listener(interrupt, [&context] { context.TryCancel(); });
      return call(&context);
    }();
    if (limit < deadline && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is silent");
    }
    // A server that shuts down cancels its calls. Changes have a request id, so repeating is safe.
    if (status.error_code() == grpc::StatusCode::CANCELLED && ErrorReason(status).empty() &&
        !interrupt.raised()) {
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
    if (!told && options.notice && is_long) {
      options.notice(absl::StrCat("the controller at ", options.server,
                                  " does not answer; trying for ", absl::ToInt64Seconds(left),
                                  " s more"));
      told = true;
    }
    if (interrupt.WaitFor(at_once ? absl::ZeroDuration() : std::min(left, backoff.Next()))) {
      return grpc::Status(grpc::StatusCode::CANCELLED, "interrupted");
    }
  }
}

template <typename Message, typename Open>
grpc::Status Client::Calls::Stream(const Open& open,
                                   const std::function<bool(const Message&)>& each, bool endless,
                                   absl::Time deadline) {
  if (!options.problem.ok()) return ToGrpc(options.problem);
  const std::string server = controllers.address();
  grpc::ClientContext context;
  const grpc::Status prepared =
      Prepare(std::min(deadline, absl::Now() + options.stream_limit), &context);
  if (!prepared.ok()) return prepared;
  const Interrupt::Listener listener(interrupt, [&context] { context.TryCancel(); });
  const auto reader = open(&context);
  Message message;
  while (reader->Read(&message)) {
    if (each(message)) continue;
    context.TryCancel();
    reader->Finish();
    return grpc::Status::OK;
  }
  grpc::Status status = reader->Finish();
  if (status.ok() && endless) {
    status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ended the stream");
  }
  // A server that shuts down cancels its calls.
  if (IsAway(status) || status.error_code() == grpc::StatusCode::CANCELLED) {
    controllers.Failed(server, status);
  }
  return status;
}

grpc::Status Client::Submit(const v1::SubmitJobRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Submit(c, request, job); });
}

grpc::Status Client::UploadCode(const v1::UploadCodeRequest& request,
                                v1::UploadCodeResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->UploadCode(c, request, response); });
}

grpc::Status Client::GetJob(const v1::GetJobRequest& request, v1::Job* job) {
  return calls_->Unary([&](grpc::ClientContext* c) { return calls_->jobs->Get(c, request, job); });
}

grpc::Status Client::ListJobs(const v1::ListJobsRequest& request, v1::ListJobsResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->List(c, request, response); });
}

grpc::Status Client::CancelJob(const v1::CancelJobRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Cancel(c, request, job); });
}

grpc::Status Client::ChangeLadder(const v1::ChangeLadderRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->ChangeLadder(c, request, job); });
}

grpc::Status Client::ChangeMode(const v1::ChangeModeRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->ChangeMode(c, request, job); });
}

grpc::Status Client::ProfileJob(const v1::ProfileJobRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Profile(c, request, job); });
}

grpc::Status Client::WhyJob(const v1::WhyRequest& request, v1::WhyResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Why(c, request, response); });
}

grpc::Status Client::AdviseJob(const v1::AdviseRequest& request, v1::JobAdvice* advice) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Advise(c, request, advice); });
}

grpc::Status Client::ApplyAdvice(const v1::ApplyAdviceRequest& request,
                                 v1::RemedyDecision* decision) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->ApplyAdvice(c, request, decision); });
}

grpc::Status Client::ListDecisions(const v1::ListDecisionsRequest& request,
                                   v1::ListDecisionsResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->ListDecisions(c, request, response); });
}

grpc::Status Client::ResumeJob(const v1::ResumeJobRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->jobs->Resume(c, request, job); });
}

grpc::Status Client::SaveCheckpoint(const v1::SaveCheckpointRequest& request, v1::Job* job) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->checkpoints->Save(c, request, job); });
}

grpc::Status Client::GetCheckpoint(const v1::GetCheckpointRequest& request,
                                   v1::Checkpoint* checkpoint) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->checkpoints->Get(c, request, checkpoint); });
}

grpc::Status Client::ListCheckpoints(const v1::ListCheckpointsRequest& request,
                                     v1::ListCheckpointsResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->checkpoints->List(c, request, response); });
}

grpc::Status Client::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                      v1::Checkpoint* checkpoint) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->checkpoints->Delete(c, request, checkpoint); });
}

grpc::Status Client::PinCheckpoint(const v1::PinCheckpointRequest& request,
                                   v1::Checkpoint* checkpoint) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->checkpoints->Pin(c, request, checkpoint); });
}

grpc::Status Client::GetNode(const v1::GetNodeRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Get(c, request, node); });
}

grpc::Status Client::ListNodes(const v1::ListNodesRequest& request,
                               v1::ListNodesResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->List(c, request, response); });
}

grpc::Status Client::CordonNode(const v1::CordonNodeRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Cordon(c, request, node); });
}

grpc::Status Client::UncordonNode(const v1::UncordonNodeRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Uncordon(c, request, node); });
}

grpc::Status Client::DrainNode(const v1::DrainNodeRequest& request,
                               v1::DrainNodeResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Drain(c, request, response); });
}

grpc::Status Client::ResumeNode(const v1::ResumeNodeRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Resume(c, request, node); });
}

grpc::Status Client::DeclareNodeLost(const v1::DeclareNodeLostRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->DeclareLost(c, request, node); });
}

grpc::Status Client::NodeHistory(const v1::NodeHistoryRequest& request, v1::NodeHistory* history) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->History(c, request, history); });
}

grpc::Status Client::CheckNode(const v1::CheckNodeRequest& request, v1::Node* node) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->nodes->Check(c, request, node); });
}

grpc::Status Client::GetAutomationStatus(const v1::GetAutomationStatusRequest& request,
                                         v1::AutomationStatus* automation) {
  return calls_->Unary([&](grpc::ClientContext* c) {
    return calls_->automation->GetStatus(c, request, automation);
  });
}

grpc::Status Client::PauseAutomation(const v1::PauseAutomationRequest& request,
                                     v1::AutomationStatus* automation) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->automation->Pause(c, request, automation); });
}

grpc::Status Client::ResumeAutomation(const v1::ResumeAutomationRequest& request,
                                      v1::AutomationStatus* automation) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->automation->Resume(c, request, automation); });
}

grpc::Status Client::GetLogLevel(const v1::GetLogLevelRequest& request, v1::LogLevelReply* reply) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->admin->GetLogLevel(c, request, reply); });
}

grpc::Status Client::SetLogLevel(const v1::SetLogLevelRequest& request, v1::LogLevelReply* reply) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->admin->SetLogLevel(c, request, reply); });
}

grpc::Status Client::Backup(const v1::BackupRequest& request,
                            const std::function<bool(const v1::BackupChunk&)>& each) {
  return calls_->Stream<v1::BackupChunk>(
      [&](grpc::ClientContext* c) { return calls_->admin->Backup(c, request); }, each, false,
      absl::InfiniteFuture());
}

grpc::Status Client::WhoAmI(const v1::WhoAmIRequest& request, v1::WhoAmIResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->identity->WhoAmI(c, request, response); });
}

grpc::Status Client::Renew(const v1::RenewRequest& request, v1::RenewResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->identity->Renew(c, request, response); });
}

grpc::Status Client::CreateJoinToken(const v1::CreateJoinTokenRequest& request,
                                     v1::CreateJoinTokenResponse* response) {
  return calls_->Unary([&](grpc::ClientContext* c) {
    return calls_->identity->CreateJoinToken(c, request, response);
  });
}

grpc::Status Client::Revoke(const v1::RevokeRequest& request, v1::Revocation* revocation) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->identity->Revoke(c, request, revocation); });
}

grpc::Status Client::ListRevoked(const v1::ListRevokedRequest& request,
                                 v1::ListRevokedResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->identity->ListRevoked(c, request, response); });
}

grpc::Status Client::GetJobHistory(const v1::GetJobHistoryRequest& request,
                                   v1::JobHistory* history) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->histories->Get(c, request, history); });
}

grpc::Status Client::ListTelemetry(const v1::ListJobTelemetryRequest& request,
                                   v1::ListJobTelemetryResponse* response) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->telemetry->ListJobs(c, request, response); });
}

grpc::Status Client::GetJobRanks(const v1::GetJobRanksRequest& request, v1::JobRanks* ranks) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->telemetry->GetRanks(c, request, ranks); });
}

grpc::Status Client::GetJobSeries(const v1::GetJobSeriesRequest& request, v1::JobSeries* series) {
  return calls_->Unary(
      [&](grpc::ClientContext* c) { return calls_->telemetry->GetSeries(c, request, series); });
}

grpc::Status Client::WatchJobs(const v1::WatchJobsRequest& request,
                               const std::function<bool(const v1::JobEvent&)>& each,
                               absl::Time deadline) {
  return calls_->Stream<v1::JobEvent>(
      [&](grpc::ClientContext* c) { return calls_->jobs->Watch(c, request); }, each, true,
      deadline);
}

grpc::Status Client::WatchNodes(const v1::WatchNodesRequest& request,
                                const std::function<bool(const v1::NodeEvent&)>& each,
                                absl::Time deadline) {
  return calls_->Stream<v1::NodeEvent>(
      [&](grpc::ClientContext* c) { return calls_->nodes->Watch(c, request); }, each, true,
      deadline);
}

grpc::Status Client::StreamLogs(const v1::StreamLogsRequest& request,
                                const std::function<bool(const v1::LogChunk&)>& each) {
  return calls_->Stream<v1::LogChunk>(
      [&](grpc::ClientContext* c) { return calls_->jobs->StreamLogs(c, request); }, each, false,
      absl::InfiniteFuture());
}

grpc::Status Client::WatchJobHistory(const v1::WatchJobHistoryRequest& request,
                                     const std::function<bool(const v1::JobHistoryEvent&)>& each) {
  return calls_->Stream<v1::JobHistoryEvent>(
      [&](grpc::ClientContext* c) { return calls_->histories->Watch(c, request); }, each, false,
      absl::InfiniteFuture());
}

}  // namespace paceline
