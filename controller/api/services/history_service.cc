#include "controller/api/services/history_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/find_job.h"
#include "controller/api/services/loop_writer.h"
#include "controller/wire/convert.h"
#include "controller/wire/errors.h"

namespace paceline {

// Runs on the loop, like LoopWriter.
class HistoryService::Stream : public LoopWriter<v1::JobHistoryEvent> {
 public:
  // The stream is in `set` while it is open. `control` and `set` outlive it.
  Stream(EventLoop* loop, Sender* sender, std::unique_ptr<CallLimits::Stream> counted,
         const ControlLoop* control, std::set<Stream*>* set)
      : LoopWriter(loop, sender, std::move(counted)), control_(control), set_(set) {}

  // Ends a stream before Begin.
  void Fail(grpc::Status status) { Close(std::move(status)); }

  void Begin(JobId job, int64_t after) {
    set_->insert(this);
    job_ = std::move(job);
    sent_ = after;
    Wake();
  }

  // The history may have grown.
  void Wake() {
    if (!has_room()) return;
    const auto job = control_->cluster().jobs().find(job_);
    const EventHistory* history = control_->histories().Find(job_);
    if (job == control_->cluster().jobs().end() || history == nullptr) {
      return Close(MakeError(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                             absl::StrCat("job ", job_.value(), " was deleted")));
    }
    const JobLifeEvent* next = history->After(sent_);
    if (next != nullptr) {
      sent_ = next->id;
      return Send(ToProto(*next));
    }
    if (job->second.ended_already() && history->is_released()) Close(grpc::Status::OK);
  }

 private:
  void Ready() override { Wake(); }
  void Gone() override { set_->erase(this); }

  const ControlLoop* const control_;
  std::set<Stream*>* const set_;
  JobId job_;
  int64_t sent_ = 0;  // Id of the last event that was sent.
};

void HistoryService::WakeWatchers() {
  for (Stream* stream : streams_) stream->Wake();
}

void HistoryService::CloseStreams(const grpc::Status& status) {
  for (Stream* stream : streams_) stream->Fail(status);
}

grpc::ServerUnaryReactor* HistoryService::Get(grpc::CallbackServerContext* context,
                                              const v1::GetJobHistoryRequest* request,
                                              v1::JobHistory* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = FindJob(caller, control_->cluster(), request->job(), &job);
    if (!found.ok()) return reactor->Finish(found);
    reply->set_job_id(job->request.id.value());
    const EventHistory* history = control_->histories().Find(job->request.id);
    int64_t last = request->after_id();
    while (history != nullptr) {
      const JobLifeEvent* next = history->After(last);
      if (next == nullptr) break;
      *reply->add_events() = ToProto(*next);
      last = next->id;
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::JobHistoryEvent>* HistoryService::Watch(
    grpc::CallbackServerContext* context, const v1::WatchJobHistoryRequest* request) {
  auto* stream =
      new Stream(loop_, sender_, limits_->OpenStream(context, *request), control_, &streams_);
  loop_->Post([this, stream, wanted = *request, caller = CallerOf(*context)] {
    if (!stream->Admit()) return;
    const Job* job = nullptr;
    const grpc::Status found = FindJob(caller, control_->cluster(), wanted.job(), &job);
    found.ok() ? stream->Begin(job->request.id, wanted.after_id()) : stream->Fail(found);
  });
  return stream;
}

}  // namespace paceline
