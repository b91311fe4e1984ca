// A controller on a real socket that answers what a test tells it to.
//
// Jobs and checkpoints are lists. Watches and logs are scripts, one per call: messages, and how the
// stream ends. A script without an end stays open until the client or the fake is gone.
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

// What one call to a stream sends.
template <typename Message>
struct StreamScript {
  std::vector<Message> messages;
  // Unset: the stream stays open.
  std::optional<grpc::Status> end;
};

class FakeController {
 public:
  // Serves on 127.0.0.1 at `port`; 0: a free port. Without credentials: in plain text.
  explicit FakeController(int port = 0,
                          const std::shared_ptr<grpc::ServerCredentials>& credentials = nullptr);
  ~FakeController();

  // "127.0.0.1:port".
  std::string address() const;
  int port() const { return port_; }

  // Nodes and automation.
  FakeNodes& nodes() { return nodes_; }
  FakeAdmin& admin() { return admin_; }
  // Users that it knows.
  FakeIdentity& identity() { return identity_; }
  // Histories and telemetry of its jobs.
  FakeTelemetry& telemetry() { return telemetry_; }

  // Sets the jobs for Get and List. `per_page`: most jobs in a page of List; later pages have
  // higher revisions.
  // As one of a release that had no labels.
  void ForgetSelectors() { knows_selectors_ = false; }
  void SetJobs(std::vector<v1::Job> jobs, int per_page = 1000) ABSL_LOCKS_EXCLUDED(mutex_);
  // A checkpoint can be named JOB/STEP, where JOB is the job's id or name; JOB names the job's
  // first one.
  void SetCheckpoints(std::vector<v1::Checkpoint> checkpoints) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the advice for the first job; ListDecisions answers with its decisions.
  void SetAdvice(v1::JobAdvice advice) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the next change fail with this status.
  void FailNext(grpc::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddWatch(StreamScript<v1::JobEvent> script) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddLog(int rank, StreamScript<v1::LogChunk> script) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes each log `bytes` long, in lines of 64 bytes, instead of scripts.
  void SetLargeLog(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<v1::SubmitJobRequest> submits() const ABSL_LOCKS_EXCLUDED(mutex_);
  // All data given to UploadCode, for any hash.
  std::string code() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::CancelJobRequest> cancels() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::ChangeLabelsRequest> relabels() const ABSL_LOCKS_EXCLUDED(mutex_);
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
  // User named by the last Submit, Delete or ApplyAdvice, as it was sent.
  std::optional<std::string> last_user() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Metadata "authorization" of the same call.
  std::optional<std::string> last_authorization() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Called when a watch has sent all its messages and stays open.
  void OnWatchIdle(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The service for gRPC.
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
  bool knows_selectors_ = true;  // Set before it is asked.
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
  std::vector<v1::ChangeLabelsRequest> relabels_ ABSL_GUARDED_BY(mutex_);
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
