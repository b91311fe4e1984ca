// Calls to a controller, each with a deadline.
//
// A unary call that finds the controller away is retried until the client's timeout is over. That
// is safe because each is a read, carries a request_id, or may be repeated. Streams are not retried
// here: their readers know where to continue (resumption.h).
//
// Thread-safe.
#ifndef CLI_RPC_CLIENT_H_
#define CLI_RPC_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/rpc/interrupt.h"
#include "grpcpp/support/status.h"

namespace grpc {
class ChannelCredentials;
}

// Defined in proto/*.pb.h, which callers include as needed.
namespace paceline::v1 {
class AdviseRequest;
class ApplyAdviceRequest;
class AutomationStatus;
class BackupChunk;
class BackupRequest;
class CancelJobRequest;
class ChangeLadderRequest;
class ChangeModeRequest;
class CheckNodeRequest;
class Checkpoint;
class CordonNodeRequest;
class CreateJoinTokenRequest;
class CreateJoinTokenResponse;
class DeclareNodeLostRequest;
class DeleteCheckpointRequest;
class DrainNodeRequest;
class DrainNodeResponse;
class GetAutomationStatusRequest;
class GetCheckpointRequest;
class GetJobHistoryRequest;
class GetJobRanksRequest;
class GetJobRequest;
class GetJobSeriesRequest;
class GetLogLevelRequest;
class GetNodeRequest;
class Job;
class JobAdvice;
class JobEvent;
class JobHistory;
class JobHistoryEvent;
class JobRanks;
class JobSeries;
class ListCheckpointsRequest;
class ListCheckpointsResponse;
class ListDecisionsRequest;
class ListDecisionsResponse;
class ListJobTelemetryRequest;
class ListJobTelemetryResponse;
class ListJobsRequest;
class ListJobsResponse;
class ListNodesRequest;
class ListNodesResponse;
class ListRevokedRequest;
class ListRevokedResponse;
class LogChunk;
class LogLevelReply;
class Node;
class NodeEvent;
class NodeHistory;
class NodeHistoryRequest;
class PauseAutomationRequest;
class PinCheckpointRequest;
class ProfileJobRequest;
class RemedyDecision;
class RenewRequest;
class RenewResponse;
class ResumeAutomationRequest;
class ResumeJobRequest;
class ResumeNodeRequest;
class Revocation;
class RevokeRequest;
class SaveCheckpointRequest;
class SetLogLevelRequest;
class StreamLogsRequest;
class SubmitJobRequest;
class UncordonNodeRequest;
class UploadCodeRequest;
class UploadCodeResponse;
class WatchJobHistoryRequest;
class WatchJobsRequest;
class WatchNodesRequest;
class WhoAmIRequest;
class WhoAmIResponse;
class WhyRequest;
class WhyResponse;
}  // namespace paceline::v1

namespace paceline {

class Client {
 public:
  struct Options {
    std::string server;                          // host:port; several are separated by commas.
    absl::Status problem;                        // If not OK, each call returns it.
    absl::Duration timeout = absl::Seconds(30);  // For a unary call, including retries.
    absl::Duration stream_limit = absl::Minutes(10);  // After that a stream is opened anew.
    std::string user;  // Sent with each call, for the controller's audit record; may be empty.
    // Returns the user's token, which is read anew for each call; unset: there is none. If it
    // cannot be had, or the connection is not TLS, the call ends with UNAUTHENTICATED and no token
    // is sent.
    std::function<absl::StatusOr<std::string>()> token = {};
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // Null: plain text.
    // Returns why the controller at an address cannot be reached, if there is more to say than that
    // it does not answer, else "". Called when a call finds it away; a reason ends the call.
    std::function<std::string(const std::string&)> explain = {};
    // Gets one line for people, without a newline, when a call has to wait for the controller.
    std::function<void(const std::string&)> notice;
  };

  // Connects at the first call. `interrupt` outlives the client; raising it makes calls end with
  // CANCELLED.
  Client(Options options, Interrupt& interrupt);
  ~Client();

  const std::string& server() const { return options_.server; }
  absl::Duration timeout() const { return options_.timeout; }
  Interrupt& interrupt() { return interrupt_; }

  grpc::Status Submit(const v1::SubmitJobRequest& request, v1::Job* job);
  grpc::Status UploadCode(const v1::UploadCodeRequest& request, v1::UploadCodeResponse* response);
  grpc::Status GetJob(const v1::GetJobRequest& request, v1::Job* job);
  grpc::Status ListJobs(const v1::ListJobsRequest& request, v1::ListJobsResponse* response);
  grpc::Status CancelJob(const v1::CancelJobRequest& request, v1::Job* job);
  grpc::Status ChangeLadder(const v1::ChangeLadderRequest& request, v1::Job* job);
  grpc::Status ChangeMode(const v1::ChangeModeRequest& request, v1::Job* job);
  grpc::Status ProfileJob(const v1::ProfileJobRequest& request, v1::Job* job);
  grpc::Status WhyJob(const v1::WhyRequest& request, v1::WhyResponse* response);
  grpc::Status AdviseJob(const v1::AdviseRequest& request, v1::JobAdvice* advice);
  grpc::Status ApplyAdvice(const v1::ApplyAdviceRequest& request, v1::RemedyDecision* decision);
  grpc::Status ListDecisions(const v1::ListDecisionsRequest& request,
                             v1::ListDecisionsResponse* response);
  grpc::Status ResumeJob(const v1::ResumeJobRequest& request, v1::Job* job);
  grpc::Status SaveCheckpoint(const v1::SaveCheckpointRequest& request, v1::Job* job);
  grpc::Status GetCheckpoint(const v1::GetCheckpointRequest& request, v1::Checkpoint* checkpoint);
  grpc::Status ListCheckpoints(const v1::ListCheckpointsRequest& request,
                               v1::ListCheckpointsResponse* response);
  grpc::Status DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                v1::Checkpoint* checkpoint);
  grpc::Status PinCheckpoint(const v1::PinCheckpointRequest& request, v1::Checkpoint* checkpoint);
  grpc::Status GetNode(const v1::GetNodeRequest& request, v1::Node* node);
  grpc::Status ListNodes(const v1::ListNodesRequest& request, v1::ListNodesResponse* response);
  grpc::Status CordonNode(const v1::CordonNodeRequest& request, v1::Node* node);
  grpc::Status UncordonNode(const v1::UncordonNodeRequest& request, v1::Node* node);
  grpc::Status DrainNode(const v1::DrainNodeRequest& request, v1::DrainNodeResponse* response);
  grpc::Status ResumeNode(const v1::ResumeNodeRequest& request, v1::Node* node);
  grpc::Status DeclareNodeLost(const v1::DeclareNodeLostRequest& request, v1::Node* node);
  grpc::Status NodeHistory(const v1::NodeHistoryRequest& request, v1::NodeHistory* history);
  grpc::Status CheckNode(const v1::CheckNodeRequest& request, v1::Node* node);
  grpc::Status GetAutomationStatus(const v1::GetAutomationStatusRequest& request,
                                   v1::AutomationStatus* automation);
  grpc::Status PauseAutomation(const v1::PauseAutomationRequest& request,
                               v1::AutomationStatus* automation);
  grpc::Status ResumeAutomation(const v1::ResumeAutomationRequest& request,
                                v1::AutomationStatus* automation);
  grpc::Status GetLogLevel(const v1::GetLogLevelRequest& request, v1::LogLevelReply* reply);
  grpc::Status SetLogLevel(const v1::SetLogLevelRequest& request, v1::LogLevelReply* reply);
  // As the streams below; a complete backup is OK.
  grpc::Status Backup(const v1::BackupRequest& request,
                      const std::function<bool(const v1::BackupChunk&)>& each);
  grpc::Status WhoAmI(const v1::WhoAmIRequest& request, v1::WhoAmIResponse* response);
  grpc::Status Renew(const v1::RenewRequest& request, v1::RenewResponse* response);
  grpc::Status CreateJoinToken(const v1::CreateJoinTokenRequest& request,
                               v1::CreateJoinTokenResponse* response);
  grpc::Status Revoke(const v1::RevokeRequest& request, v1::Revocation* revocation);
  grpc::Status ListRevoked(const v1::ListRevokedRequest& request,
                           v1::ListRevokedResponse* response);
  grpc::Status GetJobHistory(const v1::GetJobHistoryRequest& request, v1::JobHistory* history);
  grpc::Status ListTelemetry(const v1::ListJobTelemetryRequest& request,
                             v1::ListJobTelemetryResponse* response);
  grpc::Status GetJobRanks(const v1::GetJobRanksRequest& request, v1::JobRanks* ranks);
  grpc::Status GetJobSeries(const v1::GetJobSeriesRequest& request, v1::JobSeries* series);

  // Pass each message to `each` until it returns false (then OK) or the stream ends. A watch that
  // the server ends is UNAVAILABLE; a log or history that ends is OK. DEADLINE_EXCEEDED after
  // stream_limit, or at `deadline` if that is earlier.
  grpc::Status WatchJobs(const v1::WatchJobsRequest& request,
                         const std::function<bool(const v1::JobEvent&)>& each,
                         absl::Time deadline = absl::InfiniteFuture());
  grpc::Status WatchNodes(const v1::WatchNodesRequest& request,
                          const std::function<bool(const v1::NodeEvent&)>& each,
                          absl::Time deadline = absl::InfiniteFuture());
  grpc::Status StreamLogs(const v1::StreamLogsRequest& request,
                          const std::function<bool(const v1::LogChunk&)>& each);
  grpc::Status WatchJobHistory(const v1::WatchJobHistoryRequest& request,
                               const std::function<bool(const v1::JobHistoryEvent&)>& each);

 private:
  struct Calls;

  const Options options_;
  Interrupt& interrupt_;
  const std::unique_ptr<Calls> calls_;
};

}  // namespace paceline

#endif  // CLI_RPC_CLIENT_H_
