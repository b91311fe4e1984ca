// JobService: proto/job.proto.
//
// Each handler checks its request, runs on the loop, and finishes there.
#ifndef CONTROLLER_API_SERVICES_JOB_SERVICE_H_
#define CONTROLLER_API_SERVICES_JOB_SERVICE_H_

#include <functional>
#include <string>

#include "common/event_loop.h"
#include "common/identity/principal.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/held_code.h"
#include "controller/api/services/lists.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/watch_stream.h"
#include "controller/api/services/worker_sessions.h"
#include "controller/loop/control_loop.h"
#include "proto/job.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

class JobService
    : public v1::JobService::WithRawCallbackMethod_Watch<v1::JobService::CallbackService> {
 public:
  // All pointers outlive this.
  JobService(EventLoop* loop, Sender* sender, Lists* lists, ControlLoop* control, HeldCode* code,
             WorkerSessions* workers, ControllerMetrics* metrics, CallLimits* limits)
      : loop_(loop),
        sender_(sender),
        lists_(lists),
        control_(control),
        code_(code),
        workers_(workers),
        metrics_(metrics),
        limits_(limits),
        mutations_(control, metrics) {}

  // Called when the watch log has grown. On the loop.
  void WakeWatchers();
  // Called when a node has changed.
  void WakeLogReaders();
  // Ends all streams with `status`. On the loop.
  void CloseStreams(const grpc::Status& status);

  // Called by gRPC.
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitJobRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* UploadCode(grpc::CallbackServerContext* context,
                                       const v1::UploadCodeRequest* request,
                                       v1::UploadCodeResponse* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListJobsRequest* request,
                                 v1::ListJobsResponse* reply) override;
  // Streams bytes, since all watchers of a change are sent the same ones.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* encoded) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelJobRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* ChangeLabels(grpc::CallbackServerContext* context,
                                         const v1::ChangeLabelsRequest* request,
                                         v1::Job* reply) override;
  grpc::ServerUnaryReactor* ChangeLadder(grpc::CallbackServerContext* context,
                                         const v1::ChangeLadderRequest* request,
                                         v1::Job* reply) override;
  grpc::ServerUnaryReactor* ChangeMode(grpc::CallbackServerContext* context,
                                       const v1::ChangeModeRequest* request,
                                       v1::Job* reply) override;
  grpc::ServerUnaryReactor* Profile(grpc::CallbackServerContext* context,
                                    const v1::ProfileJobRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext* context,
                                   const v1::ResumeJobRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* Why(grpc::CallbackServerContext* context, const v1::WhyRequest* request,
                                v1::WhyResponse* reply) override;
  grpc::ServerUnaryReactor* Advise(grpc::CallbackServerContext* context,
                                   const v1::AdviseRequest* request, v1::JobAdvice* reply) override;
  grpc::ServerUnaryReactor* ApplyAdvice(grpc::CallbackServerContext* context,
                                        const v1::ApplyAdviceRequest* request,
                                        v1::RemedyDecision* reply) override;
  grpc::ServerUnaryReactor* ListDecisions(grpc::CallbackServerContext* context,
                                          const v1::ListDecisionsRequest* request,
                                          v1::ListDecisionsResponse* reply) override;
  grpc::ServerWriteReactor<v1::LogChunk>* StreamLogs(grpc::CallbackServerContext* context,
                                                     const v1::StreamLogsRequest* request) override;

 private:
  class LogStream;
  using Watcher = WatchStream<v1::JobEvent>;
  using Answer = Mutations::Answer;

  // On the loop; the answer comes when the change is durable.
  void DoSubmit(const Principal& caller, const v1::SubmitJobRequest& request, v1::Job* reply,
                Answer answer);
  void DoCancel(const Principal& caller, const v1::CancelJobRequest& request, v1::Job* reply,
                Answer answer);
  void DoChangeLabels(const Principal& caller, const v1::ChangeLabelsRequest& request,
                      v1::Job* reply, Answer answer);
  void DoChangeLadder(const Principal& caller, const v1::ChangeLadderRequest& request,
                      v1::Job* reply, Answer answer);
  void DoChangeMode(const Principal& caller, const v1::ChangeModeRequest& request, v1::Job* reply,
                    Answer answer);
  void DoProfile(const Principal& caller, const v1::ProfileJobRequest& request, v1::Job* reply,
                 Answer answer);
  void DoResume(const Principal& caller, const v1::ResumeJobRequest& request, v1::Job* reply,
                Answer answer);
  void DoApplyAdvice(const Principal& caller, const v1::ApplyAdviceRequest& request,
                     v1::RemedyDecision* reply, Answer answer);
  // RESOURCE_EXHAUSTED if the submitter may not have one more open job.
  grpc::Status CheckOpenJobs(const std::string& submitter) const;
  // JOB_CANNOT_FIT if the known nodes could never hold the job: their slots, or the memory of their
  // devices.
  grpc::Status CheckFits(const JobRequest& job, const v1::JobSpec& spec) const;
  // Replaces a checkpoint's name by its directory.
  grpc::Status ResolveStart(const Principal& caller, std::string* from) const;
  // Runs `mutate` for a new request id; answers a repeat from the record.
  void Once(const Principal& caller, const std::string& request_id, uint64_t fingerprint,
            v1::Job* reply, const Answer& answer,
            const std::function<void(const ControlLoop::RequestId&)>& mutate);
  // Answers with the job once what was done to it is durable.
  CommitQueue::Then ReplyTo(const JobId& id, v1::Job* reply, const Answer& answer);
  // Finds the job by an id, a unique prefix, or a name.
  grpc::Status Find(const Principal& caller, const std::string& reference, const Job** job) const;

  EventLoop* const loop_;
  Sender* const sender_;
  Lists* const lists_;
  ControlLoop* const control_;
  HeldCode* const code_;
  WorkerSessions* const workers_;
  ControllerMetrics* const metrics_;
  CallLimits* const limits_;

  // On the loop.
  Mutations mutations_;
  Watcher::Set watchers_;
  std::set<LogStream*> log_streams_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_JOB_SERVICE_H_
