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
#include "cli/testing/fake_identity.h"
#include "cli/testing/fake_nodes.h"
#include "cli/testing/fake_telemetry.h"
#include "grpcpp/grpcpp.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job.grpc.pb.h"

namespace paceline {

// What one call of a stream sends.
template <typename Message>
struct StreamScript {
  std::vector<Message> messages;
  // Unset: the stream stays open.
  std::optional<grpc::Status> end;
};

class FakeController : public v1::JobService::Service, public v1::CheckpointService::Service {
 public:
  // Serves on 127.0.0.1 and the port; 0: one of the system's choice. Without credentials: plain
  // text.
  explicit FakeController(int port = 0,
                          const std::shared_ptr<grpc::ServerCredentials>& credentials = nullptr);
  ~FakeController() override;

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

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::Job*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  // Tells the job's reason.
  grpc::Status Why(grpc::ServerContext*, const v1::WhyRequest*, v1::WhyResponse*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListJobsRequest*,
                    v1::ListJobsResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchJobsRequest*,
                     grpc::ServerWriter<v1::JobEvent>*) override;
  // Answers with the job, STOPPING, or as it is if it shall save first.
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  // Answer with the first job, in epoch 2 of this ladder or mode, or asked for profile 1.
  grpc::Status ChangeLadder(grpc::ServerContext*, const v1::ChangeLadderRequest*,
                            v1::Job*) override;
  grpc::Status ChangeMode(grpc::ServerContext*, const v1::ChangeModeRequest*, v1::Job*) override;
  grpc::Status Profile(grpc::ServerContext*, const v1::ProfileJobRequest*, v1::Job*) override;
  // Answers with the first job, QUEUED, its ranks and batch changed.
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::Job*) override;
  grpc::Status Advise(grpc::ServerContext*, const v1::AdviseRequest*, v1::JobAdvice*) override;
  // Answers with the decision, ORDERED.
  grpc::Status ApplyAdvice(grpc::ServerContext*, const v1::ApplyAdviceRequest*,
                           v1::RemedyDecision*) override;
  grpc::Status ListDecisions(grpc::ServerContext*, const v1::ListDecisionsRequest*,
                             v1::ListDecisionsResponse*) override;
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::LogChunk>*) override;
  // Answers with the first job and order 1, PENDING.
  grpc::Status Save(grpc::ServerContext*, const v1::SaveCheckpointRequest*, v1::Job*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetCheckpointRequest*, v1::Checkpoint*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListCheckpointsRequest*,
                    v1::ListCheckpointsResponse*) override;
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteCheckpointRequest*,
                      v1::Checkpoint*) override;
  grpc::Status Pin(grpc::ServerContext*, const v1::PinCheckpointRequest*, v1::Checkpoint*) override;

 private:
  grpc::Status NextFailure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteUser(const grpc::ServerContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Find(const std::string& name, v1::Checkpoint* checkpoint) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Message>
  static std::optional<StreamScript<Message>> Next(std::deque<StreamScript<Message>>& scripts);
  static grpc::Status PlayLarge(int64_t bytes, grpc::ServerWriter<v1::LogChunk>* writer);
  // Sends the script; calls `idle`, if any, when it stays open.
  template <typename Message>
  grpc::Status Play(grpc::ServerContext* context,
                    const std::optional<StreamScript<Message>>& script,
                    grpc::ServerWriter<Message>* writer, const std::function<void()>& idle)
      ABSL_LOCKS_EXCLUDED(mutex_);

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
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_CONTROLLER_H_
