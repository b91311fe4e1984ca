#include "cli/testing/fake_controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/testing/fake_errors.h"
#include "common/core/labels.h"
#include "grpcpp/grpcpp.h"
#include "proto/job.grpc.pb.h"

namespace paceline {
namespace {

std::optional<std::string> MetadataOf(const grpc::ServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

}  // namespace

class FakeController::JobCalls : public v1::JobService::Service {
 public:
  explicit JobCalls(FakeController& fake) : fake_(fake) {}

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::Job*) override;
  grpc::Status UploadCode(grpc::ServerContext*, const v1::UploadCodeRequest*,
                          v1::UploadCodeResponse*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  // Answers with the job's reason.
  grpc::Status Why(grpc::ServerContext*, const v1::WhyRequest*, v1::WhyResponse*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListJobsRequest*,
                    v1::ListJobsResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchJobsRequest*,
                     grpc::ServerWriter<v1::JobEvent>*) override;
  // Answers with the job: STOPPING, or unchanged if it is to save first.
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  // Answer with the first job: relabelled, in version 2 with this ladder or mode, or with profile 1
  // asked for.
  grpc::Status ChangeLabels(grpc::ServerContext*, const v1::ChangeLabelsRequest*,
                            v1::Job*) override;
  grpc::Status ChangeLadder(grpc::ServerContext*, const v1::ChangeLadderRequest*,
                            v1::Job*) override;
  grpc::Status ChangeMode(grpc::ServerContext*, const v1::ChangeModeRequest*, v1::Job*) override;
  grpc::Status Profile(grpc::ServerContext*, const v1::ProfileJobRequest*, v1::Job*) override;
  // Answers with the first job: QUEUED, with its ranks and batch changed.
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::Job*) override;
  grpc::Status Advise(grpc::ServerContext*, const v1::AdviseRequest*, v1::JobAdvice*) override;
  // Answers with the decision in state ORDERED.
  grpc::Status ApplyAdvice(grpc::ServerContext*, const v1::ApplyAdviceRequest*,
                           v1::RemedyDecision*) override;
  grpc::Status ListDecisions(grpc::ServerContext*, const v1::ListDecisionsRequest*,
                             v1::ListDecisionsResponse*) override;
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::LogChunk>*) override;

 private:
  template <typename Message>
  static std::optional<StreamScript<Message>> Next(std::deque<StreamScript<Message>>& scripts);
  static grpc::Status PlayLarge(int64_t bytes, grpc::ServerWriter<v1::LogChunk>* writer);
  // Sends the script; if the stream stays open, calls `idle`, unless that is null.
  template <typename Message>
  grpc::Status Play(grpc::ServerContext* context,
                    const std::optional<StreamScript<Message>>& script,
                    grpc::ServerWriter<Message>* writer, const std::function<void()>& idle)
      ABSL_LOCKS_EXCLUDED(fake_.mutex_);

  FakeController& fake_;
};

FakeController::FakeController(int port,
                               const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : job_calls_(std::make_unique<JobCalls>(*this)), checkpoint_calls_(NewCheckpointCalls()) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                           credentials == nullptr ? grpc::InsecureServerCredentials() : credentials,
                           &port_);
  builder.RegisterService(job_calls_.get());
  nodes_.RegisterWith(builder);
  admin_.RegisterWith(builder);
  identity_.RegisterWith(builder);
  telemetry_.RegisterWith(builder);
  builder.RegisterService(checkpoint_calls_.get());
  server_ = builder.BuildAndStart();
}

FakeController::~FakeController() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  nodes_.Stop();
  server_->Shutdown();
}

std::string FakeController::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeController::SetJobs(std::vector<v1::Job> jobs, int per_page) {
  const absl::MutexLock lock(&mutex_);
  jobs_ = std::move(jobs);
  jobs_per_page_ = per_page;
}

void FakeController::SetAdvice(v1::JobAdvice advice) {
  const absl::MutexLock lock(&mutex_);
  advice_ = std::move(advice);
}

void FakeController::FailNext(grpc::Status status) {
  const absl::MutexLock lock(&mutex_);
  failures_.push_back(std::move(status));
}

void FakeController::AddWatch(StreamScript<v1::JobEvent> script) {
  const absl::MutexLock lock(&mutex_);
  watch_scripts_.push_back(std::move(script));
}

void FakeController::AddLog(int rank, StreamScript<v1::LogChunk> script) {
  const absl::MutexLock lock(&mutex_);
  log_scripts_[rank].push_back(std::move(script));
}

void FakeController::SetLargeLog(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  large_log_bytes_ = bytes;
}

void FakeController::OnWatchIdle(std::function<void()> callback) {
  const absl::MutexLock lock(&mutex_);
  on_watch_idle_ = std::move(callback);
}

void FakeController::NoteUser(const grpc::ServerContext& context) {
  last_user_ = MetadataOf(context, "paceline-user");
  last_authorization_ = MetadataOf(context, "authorization");
}

grpc::Status FakeController::NextFailure() {
  if (failures_.empty()) return grpc::Status::OK;
  const grpc::Status failure = failures_.front();
  failures_.pop_front();
  return failure;
}

grpc::Status FakeController::JobCalls::Submit(grpc::ServerContext* context,
                                              const v1::SubmitJobRequest* request, v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.NoteUser(*context);
  fake_.submits_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  job->set_id("job-0123456789ab");
  *job->mutable_spec() = request->spec();
  job->set_state(v1::QUEUED);
  job->set_revision(1);
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::UploadCode(grpc::ServerContext*,
                                                  const v1::UploadCodeRequest* request,
                                                  v1::UploadCodeResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  if (request->offset() == static_cast<int64_t>(fake_.code_.size())) {
    fake_.code_ += request->data();
  }
  response->set_received(static_cast<int64_t>(fake_.code_.size()));
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::Get(grpc::ServerContext*, const v1::GetJobRequest* request,
                                           v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  for (const v1::Job& known : fake_.jobs_) {
    if (!absl::StartsWith(known.id(), request->job()) && known.spec().name() != request->job()) {
      continue;
    }
    *job = known;
    return grpc::Status::OK;
  }
  return NotFound("job", request->job(), "JOB_NOT_FOUND");
}

grpc::Status FakeController::JobCalls::Why(grpc::ServerContext* context,
                                           const v1::WhyRequest* request,
                                           v1::WhyResponse* response) {
  v1::GetJobRequest wanted;
  wanted.set_job(request->job());
  v1::Job job;
  const grpc::Status status = Get(context, &wanted, &job);
  if (status.ok() && !job.reason().empty()) response->add_obstacles(job.reason());
  return status;
}

grpc::Status FakeController::JobCalls::List(grpc::ServerContext*,
                                            const v1::ListJobsRequest* request,
                                            v1::ListJobsResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  response->set_revision(7 + static_cast<int64_t>(at));  // Something changes between two pages.
  const int most = std::min(request->page_size(), fake_.jobs_per_page_);
  const LabelSelector selector =
      LabelSelector::Parse(fake_.knows_selectors_ ? request->label_selector() : "")
          .value_or(LabelSelector());
  for (; at < fake_.jobs_.size() && response->jobs_size() < most; ++at) {
    const v1::Job& job = fake_.jobs_[at];
    const auto& states = request->states();
    const auto& labels = job.spec().labels();
    if ((states.empty() || std::count(states.begin(), states.end(), job.state()) > 0) &&
        selector.Matches(JobLabels(labels.begin(), labels.end()))) {
      *response->add_jobs() = job;
    }
  }
  if (at < fake_.jobs_.size()) response->set_next_page_token(absl::StrCat(at));
  return grpc::Status::OK;
}

template <typename Message>
std::optional<StreamScript<Message>> FakeController::JobCalls::Next(
    std::deque<StreamScript<Message>>& scripts) {
  if (scripts.empty()) return std::nullopt;
  StreamScript<Message> script = std::move(scripts.front());
  scripts.pop_front();
  return script;
}

template <typename Message>
grpc::Status FakeController::JobCalls::Play(grpc::ServerContext* context,
                                            const std::optional<StreamScript<Message>>& script,
                                            grpc::ServerWriter<Message>* writer,
                                            const std::function<void()>& idle) {
  if (!script.has_value()) return grpc::Status(grpc::StatusCode::INTERNAL, "no script is left");
  for (const Message& message : script->messages) writer->Write(message);
  if (script->end.has_value()) return *script->end;
  if (idle) idle();
  const absl::MutexLock lock(&fake_.mutex_);
  while (!fake_.stopping_ && !context->IsCancelled()) {
    fake_.mutex_.AwaitWithTimeout(absl::Condition(&fake_.stopping_), absl::Milliseconds(5));
  }
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down");
}

grpc::Status FakeController::JobCalls::Watch(grpc::ServerContext* context,
                                             const v1::WatchJobsRequest* request,
                                             grpc::ServerWriter<v1::JobEvent>* writer) {
  std::optional<StreamScript<v1::JobEvent>> script;
  std::function<void()> idle;
  {
    const absl::MutexLock lock(&fake_.mutex_);
    fake_.watches_.push_back(*request);
    script = Next(fake_.watch_scripts_);
    idle = fake_.on_watch_idle_;
  }
  return Play(context, script, writer, idle);
}

grpc::Status FakeController::JobCalls::Cancel(grpc::ServerContext*,
                                              const v1::CancelJobRequest* request, v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.cancels_.push_back(*request);
  for (const v1::Job& known : fake_.jobs_) {
    if (known.id() != request->job() && known.spec().name() != request->job()) continue;
    *job = known;
    if (!request->save()) job->set_state(v1::STOPPING);
    return grpc::Status::OK;
  }
  return NotFound("job", request->job(), "JOB_NOT_FOUND");
}

grpc::Status FakeController::JobCalls::ChangeLabels(grpc::ServerContext*,
                                                    const v1::ChangeLabelsRequest* request,
                                                    v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.relabels_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  v1::JobSpec& spec = *fake_.jobs_.front().mutable_spec();
  const std::vector<std::string> changes(request->labels().begin(), request->labels().end());
  const JobLabels before(spec.labels().begin(), spec.labels().end());
  spec.clear_labels();
  for (const auto& [key, value] : Relabelled(before, changes).value_or(before)) {
    (*spec.mutable_labels())[key] = value;
  }
  if (request->has_description()) spec.set_description(request->description());
  *job = fake_.jobs_.front();
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::ChangeLadder(grpc::ServerContext*,
                                                    const v1::ChangeLadderRequest* request,
                                                    v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.ladders_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *job = fake_.jobs_.front();
  job->mutable_plan()->set_version(2);
  *job->mutable_plan()->mutable_strategy()->mutable_hsgd()->mutable_ladder() = request->ladder();
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::ChangeMode(grpc::ServerContext*,
                                                  const v1::ChangeModeRequest* request,
                                                  v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.modes_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *job = fake_.jobs_.front();
  job->mutable_plan()->set_version(2);
  job->mutable_plan()->mutable_strategy()->mutable_slipstream()->set_mode(request->mode());
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::Profile(grpc::ServerContext*,
                                               const v1::ProfileJobRequest* request, v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.profiles_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *job = fake_.jobs_.front();
  job->mutable_profile()->mutable_request()->set_id(1);
  job->mutable_profile()->mutable_request()->set_first_step(40);
  job->mutable_profile()->mutable_request()->set_steps(request->steps());
  *job->mutable_profile()->mutable_ranks() = request->ranks();
  if (request->ranks().empty()) {  // All.
    for (int rank = 0; rank < job->spec().ranks(); ++rank) job->mutable_profile()->add_ranks(rank);
  }
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::Resume(grpc::ServerContext*,
                                              const v1::ResumeJobRequest* request, v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.resumes_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *job = fake_.jobs_.front();
  v1::JobSpec& spec = *job->mutable_spec();
  if (request->ranks() > 0) spec.set_ranks(request->ranks());
  if (request->keep_schedule()) {
    spec.mutable_schedule()->mutable_cosine()->set_steps(spec.steps());
  }
  if (request->steps() > 0) spec.set_steps(request->steps());
  if (request->batch_per_rank() > 0) spec.set_batch_per_rank(request->batch_per_rank());
  if (request->accumulation_steps() > 0) {
    spec.set_accumulation_steps(request->accumulation_steps());
  }
  job->set_state(v1::QUEUED);
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::Advise(grpc::ServerContext*, const v1::AdviseRequest*,
                                              v1::JobAdvice* advice) {
  const absl::MutexLock lock(&fake_.mutex_);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *advice = fake_.advice_;
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::ApplyAdvice(grpc::ServerContext* context,
                                                   const v1::ApplyAdviceRequest* request,
                                                   v1::RemedyDecision* decision) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.NoteUser(*context);
  fake_.applied_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  for (const v1::RemedyDecision& known : fake_.advice_.decisions()) {
    if (known.id() == request->advice()) *decision = known;
  }
  decision->set_state(v1::DECISION_ORDERED);
  decision->set_by(request->by());
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::ListDecisions(grpc::ServerContext*,
                                                     const v1::ListDecisionsRequest*,
                                                     v1::ListDecisionsResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *response->mutable_decisions() = fake_.advice_.decisions();
  return grpc::Status::OK;
}

grpc::Status FakeController::JobCalls::StreamLogs(grpc::ServerContext* context,
                                                  const v1::StreamLogsRequest* request,
                                                  grpc::ServerWriter<v1::LogChunk>* writer) {
  std::optional<StreamScript<v1::LogChunk>> script;
  int64_t large = 0;
  {
    const absl::MutexLock lock(&fake_.mutex_);
    fake_.logs_.push_back(*request);
    large = fake_.large_log_bytes_;
    if (large == 0) script = Next(fake_.log_scripts_[request->rank()]);
  }
  return large > 0 ? PlayLarge(large, writer) : Play(context, script, writer, /*idle=*/{});
}

grpc::Status FakeController::JobCalls::PlayLarge(int64_t bytes,
                                                 grpc::ServerWriter<v1::LogChunk>* writer) {
  const std::string line = std::string(63, 'x') + "\n";
  v1::LogChunk chunk;
  while (chunk.data().size() < 64 * 1024) chunk.mutable_data()->append(line);
  const auto size = static_cast<int64_t>(chunk.data().size());
  for (int64_t offset = 0; offset < bytes; offset += size) {
    chunk.set_offset(offset);
    if (!writer->Write(chunk)) break;
  }
  return grpc::Status::OK;
}

}  // namespace paceline
