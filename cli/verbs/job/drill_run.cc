#include "cli/verbs/job/drill_run.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "cli/rpc/interrupt.h"
#include "cli/rpc/watch.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/job/outside_fault.h"
#include "cli/verbs/job/rank_log.h"
#include "cli/verbs/job/ship.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/view/job/job_text.h"
#include "common/boot_clock.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/saving/sample_ledger.h"

namespace paceline {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
// How long the rest of a log may take when its job has ended, and the job to end when cancelled.
constexpr absl::Duration kLogPatience = absl::Seconds(10);
constexpr absl::Duration kEndPatience = absl::Seconds(30);
// What is done from outside begins when so many steps are done; they are held up from then on.
constexpr int64_t kStepsBefore = 2;

// Reads the steps in rank 0's log, as they come, on a thread of its own.
class StepFollower {
 public:
  StepFollower(Program& program, std::string job_id)
      : client_(program.ClientOptions(), left_alone_),
        job_id_(std::move(job_id)),
        thread_([this] { Follow(); }) {}
  ~StepFollower() { Finish(absl::ZeroDuration()); }
  StepFollower(const StepFollower&) = delete;
  StepFollower& operator=(const StepFollower&) = delete;

  // All that the log has. Waits for its end, but no longer than `patience`.
  std::vector<StepMark> Finish(absl::Duration patience) {
    if (thread_.joinable()) {
      if (!ended_.WaitForNotificationWithTimeout(patience)) left_alone_.Raise();
      thread_.join();
    }
    return marks_;
  }

 private:
  void Follow() {
    JobWatch watch;
    watch.job_id = job_id_;
    watch.on_outage = [](const grpc::Status&) {};
    watch.each = [](const v1::JobEvent& event) {
      return event.job().ranks().empty() && !HasEnded(event.job().state()) &&
             event.type() != v1::DELETED;
    };
    if (WatchJobs(client_, watch).ok()) Read();
    ended_.Notify();
  }

  void Read() {
    LineSplitter lines;
    RankLog log;
    log.job_id = job_id_;
    log.follow = true;
    log.each = [&](absl::string_view data) {
      for (const std::string& line : lines.Add(data)) {
        std::optional<StepMark> mark = ParseStepLine(line);
        if (mark.has_value()) marks_.push_back(*std::move(mark));
      }
    };
    log.on_trainer = [&](const std::string&) { lines.Rest(); };
    log.on_gap = [](int64_t) {};
    log.on_outage = [](const grpc::Status&) {};
    // What cannot be read is missing, and said to be.
    ReadRankLog(client_, log).IgnoreError();
  }

  Interrupt left_alone_;
  Client client_;
  const std::string job_id_;
  std::vector<StepMark> marks_;  // Of the thread, until it has been joined.
  absl::Notification ended_;
  std::thread thread_;  // Last member, since it uses the others.
};

void Cancel(Program& program, const std::string& job_id) {
  v1::CancelJobRequest request;
  request.set_job(job_id);
  request.set_request_id(NewUuid());
  request.set_reason("the drill gave it up");
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobCancel, request, &job);
  if (!status.ok()) program.Fail(status);
}

// Cancels the job though the user has interrupted: nobody else would.
grpc::Status GiveUp(Program& program, const std::string& job_id) {
  program.interrupt().Lower();
  Cancel(program, job_id);
  // Its folder goes when this has returned.
  v1::Job job;
  const absl::Time deadline = BootNow() + kEndPatience;
  while (BootNow() < deadline && GetJob(program, job_id, &job).ok() && !HasEnded(job.state())) {
    if (program.interrupt().WaitFor(kLook)) break;
  }
  program.interrupt().Raise();
  return {grpc::StatusCode::CANCELLED, "interrupted"};
}

// Follows the job to its end, and does what is to be done meanwhile.
class Course {
 public:
  Course(Program& program, const DrillRunOptions& options, RunRecord* record)
      : program_(program), options_(options), record_(*record) {
    if (options.cluster != nullptr && ComesFromOutside(options.fault)) {
      outside_.emplace(program, *options.cluster, options.fault, options.small_disk);
      record_.not_done = "the job ended before it could be done; give the drill more --steps";
    }
  }

  // `job`: in the end as it ended.
  grpc::Status Follow(v1::Job* job) {
    absl::Time deadline = BootNow() + options_.limit;
    int64_t step = 0;
    bool given_up = false;
    while (!HasEnded(job->state())) {
      if (program_.interrupt().WaitFor(kLook)) return GiveUp(program_, record_.job);
      const grpc::Status status = GetJob(program_, record_.job, job);
      if (program_.interrupt().raised()) return GiveUp(program_, record_.job);
      const bool may_come = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                            status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (may_come && BootNow() < deadline) continue;
      if (!status.ok()) {
        Cancel(program_, record_.job);
        return status;
      }
      if (job->state() == v1::QUEUED && job->restarts() == 0) {
        // It counts from when there is room for it.
        record_.submitted = absl::Now();
        deadline = BootNow() + options_.limit;
      }
      if (options_.fault == DrillFault::kNone && !given_up && job->progress().step() > step) {
        // Undisturbed: as long as it gets on.
        step = job->progress().step();
        deadline = BootNow() + options_.limit;
      }
      Disturb(*job);
      if (given_up && BootNow() > deadline + kEndPatience) break;
      if (given_up || BootNow() < deadline || HasEnded(job->state())) continue;
      given_up = true;
      // Why it goes no further, before the cancellation is the reason.
      record_.reason = SanitizeLine(job->reason());
      Cancel(program_, record_.job);
    }
    Conclude(*job, given_up);
    return grpc::Status::OK;
  }

 private:
  void Disturb(const v1::Job& job) {
    if (released_ || options_.pace <= absl::ZeroDuration()) return;
    if (!outside_.has_value()) {
      if (job.state() == v1::RUNNING) Release();
      return;
    }
    if (!has_acted_ && job.state() == v1::RUNNING && job.progress().step() >= kStepsBefore) {
      has_acted_ = true;
      const absl::Status status = outside_->Act(job);
      record_.not_done = status.ok() ? "" : SanitizeLine(status.message());
      // Its steps need not wait for what does not happen.
      if (!status.ok()) Release();
      return;
    }
    if (has_acted_ && outside_->IsOver(job)) Release();
  }

  // What was done from outside is undone, and the steps are as fast as ever: a last save needs room
  // again.
  void Release() {
    released_ = true;
    outside_.reset();
    std::ofstream(options_.until_file).flush();
  }

  void Conclude(const v1::Job& job, bool given_up) {
    record_.took = absl::Now() - record_.submitted;
    record_.end = given_up                       ? RunEnd::kTookTooLong
                  : job.state() == v1::SUCCEEDED ? RunEnd::kSucceeded
                                                 : RunEnd::kFailed;
    if (!given_up) record_.reason = SanitizeLine(job.reason());
    record_.restarts = job.restarts();
    record_.failed_saves = job.checkpoints().failed();
    for (const v1::MembershipChange& shown : job.membership_changes()) {
      RankChange& change = record_.changes.emplace_back();
      change.decided = TimeOf(shown.has_begin_time(), shown.begin_time());
      if (shown.has_end_time()) change.trained = TimeOf(true, shown.end_time());
      change.planned = shown.planned();
    }
  }

  Program& program_;
  const DrillRunOptions& options_;
  RunRecord& record_;
  std::optional<OutsideFault> outside_;
  bool has_acted_ = false;
  bool released_ = false;
};

// Nothing: there is no ledger here.
std::optional<LedgerCounts> ReadLedger(const v1::JobSpec& spec, const std::string& job_id) {
  if (!spec.checkpoint().sample_ledger()) return std::nullopt;
  const absl::StatusOr<LedgerFiles> files =
      ReadSampleLedger(absl::StrCat(spec.checkpoint().directory(), "/", job_id));
  if (!files.ok()) return std::nullopt;
  const LedgerUse use = UseOf(CountedRuns(files->runs));
  LedgerCounts counts;
  for (const EpochUse& epoch : use.epochs) {
    counts.epochs.push_back({epoch.epoch, epoch.once, epoch.again, epoch.never});
  }
  counts.missing = use.missing + files->damaged;
  counts.unknown = use.unknown;
  return counts;
}

}  // namespace

grpc::Status RunDrillJob(Program& program, const v1::JobSpec& spec, const DrillRunOptions& options,
                         RunRecord* record) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(NewUuid());
  record->submitted = absl::Now();
  record->pace = options.pace;
  record->paced_until = PacedUntil(options.fault, spec.steps());
  v1::Job job;
  grpc::Status status = SubmitShipped(program, request, options.code, &job);
  if (!status.ok()) return status;
  record->job = job.id();
  StepFollower follower(program, job.id());
  {
    // Its end undoes what was done from outside.
    Course course(program, options, record);
    status = course.Follow(&job);
  }
  record->marks = follower.Finish(status.ok() ? kLogPatience : absl::ZeroDuration());
  if (status.ok()) record->ledger = ReadLedger(spec, job.id());
  return status;
}

}  // namespace paceline
