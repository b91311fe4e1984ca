// A controller on a real socket that says what a test tells it to.
//
// Jobs and checkpoints are lists; watches and logs are scripts, one per call: messages and
// how the stream ends. A script that does not end stays open until the client goes or the fake is
// gone.
//
// Thread-safe.
#ifndef CLI_TESTING_FAKE_CONTROLLER_H_
#define CLI_TESTING_FAKE_CONTROLLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/testing/fake_admin.h"
#include "cli/testing/fake_nodes.h"
#include "cli/testing/fake_telemetry.h"
#include "grpcpp/support/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace grpc {
class Server;
class ServerContext;
class ServerCredentials;
class Service;
}  // namespace grpc

namespace paceline {

// What one call of a stream sends.
template <typename Message>
struct StreamScript {
  std::vector<Message> messages;
  // Unset: the stream stays open.
  std::optional<grpc::Status> end;
};

class FakeController {
 public:
  // Serves on 127.0.0.1 and the port; 0: one of the system's choice. Without credentials: plain
  // text.
  explicit FakeController(int port = 0,
                          const std::shared_ptr<grpc::ServerCredentials>& credentials = nullptr);
  ~FakeController();

  // "127.0.0.1:port".
  std::string address() const;
  int port() const { return port_; }

  // Its nodes, and its automation.
  FakeNodes& nodes() { return nodes_; }
  FakeAdmin& admin() { return admin_; }
  // Whom it knows.
  FakeIdentity& identity() { return identity_; }
  // The histories of its jobs, and what they measure.
  FakeTelemetry& telemetry() { return telemetry_; }

  // Get and List answer from these.
  // `per_page`: what List tells of at most; a page that is asked for later has a greater revision.
  void SetJobs(std::vector<v1::Job> jobs, int per_page = 1000) ABSL_LOCKS_EXCLUDED(mutex_);
  // Each is known as JOB/STEP, JOB being its id or name, or JOB for the first of the job.
  void SetCheckpoints(std::vector<v1::Checkpoint> checkpoints) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the first job. ListDecisions answers with those of the advice.
  void SetAdvice(v1::JobAdvice advice) ABSL_LOCKS_EXCLUDED(mutex_);
  // The answer to the next change when it is no success.
  void FailNext(grpc::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddWatch(StreamScript<v1::JobEvent> script) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddLog(int rank, StreamScript<v1::LogChunk> script) ABSL_LOCKS_EXCLUDED(mutex_);
  // Each log is so many bytes, in lines of 64; instead of scripts.
  void SetLargeLog(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<v1::SubmitJobRequest> submits() const ABSL_LOCKS_EXCLUDED(mutex_);
  // All that UploadCode was given, whatever hash it was for.
  std::string code() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::CancelJobRequest> cancels() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ChangeLadderRequest> ladders() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ChangeModeRequest> modes() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ProfileJobRequest> profiles() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ResumeJobRequest> resumes() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ApplyAdviceRequest> applied() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::SaveCheckpointRequest> saves() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::DeleteCheckpointRequest> deletes() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::PinCheckpointRequest> pins() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::WatchJobsRequest> watches() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::StreamLogsRequest> logs() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whom the last Submit, Delete or ApplyAdvice said that it comes from, as it was sent.
  std::optional<std::string> last_user() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What the same call had as the metadata "authorization".
  std::optional<std::string> last_authorization() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Called when a watch has sent all its messages and stays open.
  void OnWatchIdle(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What gRPC calls.
  class JobCalls;
  class CheckpointCalls;
  std::unique_ptr<grpc::Service> NewCheckpointCalls();

  grpc::Status NextFailure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteUser(const grpc::ServerContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Find(const std::string& name, v1::Checkpoint* checkpoint) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FakeNodes nodes_;
  FakeAdmin admin_;
  FakeIdentity identity_;
  FakeTelemetry telemetry_;
  int port_ = 0;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int jobs_per_page_ ABSL_GUARDED_BY(mutex_) = 1000;
  v1::JobAdvice advice_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Checkpoint> checkpoints_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::deque<StreamScript<v1::JobEvent>> watch_scripts_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::deque<StreamScript<v1::LogChunk>>> log_scripts_ ABSL_GUARDED_BY(mutex_);
  int64_t large_log_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> on_watch_idle_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitJobRequest> submits_ ABSL_GUARDED_BY(mutex_);
  std::string code_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CancelJobRequest> cancels_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ChangeLadderRequest> ladders_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ChangeModeRequest> modes_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ProfileJobRequest> profiles_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ResumeJobRequest> resumes_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ApplyAdviceRequest> applied_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SaveCheckpointRequest> saves_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::DeleteCheckpointRequest> deletes_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PinCheckpointRequest> pins_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WatchJobsRequest> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::StreamLogsRequest> logs_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> last_user_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> last_authorization_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<grpc::Service> job_calls_;
  const std::unique_ptr<grpc::Service> checkpoint_calls_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_CONTROLLER_H_
