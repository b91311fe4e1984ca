// paceline job wait and watch.
#include "cli/verbs/job/job_follow.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/watch.h"
#include "cli/text/reported_once.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/job_page.h"
#include "cli/view/job/job_text.h"
#include "cli/view/job/progress_line.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace paceline {
namespace {

constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr int kDefaultWidth = 80;

// Shows the present state of a job, in place (terminal) or line by line. Thread-compatible.
class ProgressView {
 public:
  explicit ProgressView(Program& program)
      : program_(program), bar_(program.out_is_terminal()), enabled_(!program.json()) {}

  void Show(const v1::Job& job, absl::Time now) {
    if (!enabled_ || program_.flags.quiet) return;
    ShowRestart(job);
    ShowSaveTrouble(job, now);
    ShowCopyTrouble(job);
    const bool changed = job.state() != state_;
    if (!changed && now < last_ + (bar_ ? kBarInterval : kLineInterval)) return;
    state_ = job.state();
    last_ = now;
    if (bar_) {
      const int width = program_.style().width;
      program_.out() << "\r" << ProgressBar(job, (width > 0 ? width : kDefaultWidth) - 1)
                     << "\x1b[K" << std::flush;
      drawn_ = true;
    } else {
      program_.out() << ProgressText(job, &reported_) << std::endl;
    }
  }

  // What was shown in the lines so far.
  ReportedOnce& reported() { return reported_; }

  // Removes the bar, so that a line can be written.
  void Clear() {
    if (drawn_) program_.out() << "\r\x1b[K" << std::flush;
    drawn_ = false;
  }

 private:
  // Writes a permanent line if the job has restarted since the last call.
  void ShowRestart(const v1::Job& job) {
    const bool again = restarts_.has_value() && job.restarts() > *restarts_;
    restarts_ = job.restarts();
    if (!again) return;
    Clear();
    const std::string why = reported_.Tell(RestartCause(job));
    program_.out() << "restart " << RestartsOf(job) << (why.empty() ? "" : ": ") << why
                   << std::endl;
  }

  // Writes a permanent line when saves start to fail or work again, once per change. After the last
  // step it writes one for each error, since the job's end depends on it.
  void ShowSaveTrouble(const v1::Job& job, absl::Time now) {
    const std::string trouble = SaveTroubleText(job, now);
    const std::string& error = job.checkpoints().last_error();
    const bool is_last = job.progress().step() >= job.spec().steps() && save_error_ != error;
    save_error_ = error;
    if (trouble.empty() == !saves_fail_ && (trouble.empty() || !is_last)) return;
    saves_fail_ = !trouble.empty();
    if (HasEnded(job.state())) return;
    Clear();
    program_.out() << SanitizeLine(job.spec().name()) << ": "
                   << (saves_fail_ ? reported_.Tell(trouble)
                                   : absl::StrCat("checkpoints are saved again: step ",
                                                  job.checkpoints().newest_step()))
                   << std::endl;
  }

  // Writes a permanent line when trouble with copies in host memory begins, and when it is over.
  void ShowCopyTrouble(const v1::Job& job) {
    const std::string trouble = CopyTroubleText(job);
    if (trouble.empty() == !copies_in_trouble_) return;
    copies_in_trouble_ = !trouble.empty();
    // A new start has none, and that is no news.
    if (!copies_in_trouble_ && job.state() != v1::RUNNING) return;
    Clear();
    program_.out() << SanitizeLine(job.spec().name()) << ": "
                   << (copies_in_trouble_
                           ? reported_.Tell(trouble)
                           : absl::StrCat("copies in host memory are in time again: step ",
                                          job.copies().step()))
                   << std::endl;
  }

  Program& program_;
  const bool bar_;
  const bool enabled_;
  std::optional<int> restarts_;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  absl::Time last_ = absl::InfinitePast();
  bool drawn_ = false;
  bool saves_fail_ = false;
  std::string save_error_;
  bool copies_in_trouble_ = false;
  ReportedOnce reported_;
};

void ShowEnd(Program& program, const v1::Job& job, ReportedOnce& reported) {
  if (program.json()) {
    program.PrintJson(job);
    return;
  }
  const PageStyle style = program.style();
  const bool unusable = job.failure().exit().failure() == v1::FAILURE_RESTORE;
  program.out() << SummaryText(job, absl::Now(), style, &reported)
                << FailureText(job, style, &reported);
  if (!program.flags.quiet) {
    program.out() << "next: paceline job describe " << job.id() << "\n"
                  << "      paceline job logs " << job.id() << "\n";
    if (job.state() != v1::SUCCEEDED && !unusable && job.checkpoints().complete() > 0) {
      program.out() << "      paceline job resume " << job.id() << "\n";
    }
  }
  // The reason says from which checkpoint the job can continue.
  if (unusable) program.out() << reported.Tell(SanitizeLine(job.reason())) << "\n";
  program.out() << std::flush;
}

struct JobWaitFlags {
  std::string job;
  double timeout_s = 0;
};

int WaitForJob(Program& program, const JobWaitFlags& flags) {
  FollowOptions options;
  options.progress = false;
  if (flags.timeout_s > 0) options.deadline = absl::Now() + absl::Seconds(flags.timeout_s);
  v1::Job job;
  const grpc::Status status = GetJob(program, flags.job, &job);
  if (!status.ok()) return program.Fail(status);
  return FollowJob(program, job.id(), options);
}

void AddJobWait(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobWaitFlags>();
  CLI::App* verb =
      parent.add_subcommand("wait", "Wait until a job has ended; the exit code tells how");
  AddJob(*verb, flags->job);
  verb->add_option("--for", flags->timeout_s,
                   "Wait at most so many seconds; 0: as long as it takes")
      ->transform(Seconds(0));
  RunWith(*verb, program, flags, WaitForJob);
}

int WatchToItsEnd(Program& program, const std::string& name) {
  if (name.empty()) return TellJobChanges(program, [](const v1::Job&) { return true; });
  v1::Job job;
  const grpc::Status status = GetJob(program, name, &job);
  if (!status.ok()) return program.Fail(status);
  FollowOptions options;
  options.events = true;
  return FollowJob(program, job.id(), options);
}

void AddJobWatch(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "watch", "Show the progress of a job until it ends, or the changes of all jobs");
  verb->add_option("JOB", *name, "Id, unique beginning of an id, or name; none: all jobs");
  RunWith(*verb, program, name, WatchToItsEnd);
}

}  // namespace

int FollowJob(Program& program, const std::string& job_id, const FollowOptions& options) {
  ProgressView view(program);
  v1::Job last;
  bool deleted = false;
  JobWatch watch;
  watch.job_id = job_id;
  watch.deadline = options.deadline;
  watch.each = [&](const v1::JobEvent& event) {
    if (event.job().id() != job_id) return true;
    deleted = event.type() == v1::DELETED;
    last = event.job();
    if (options.events && program.json()) program.PrintJsonLine(event);
    if (options.progress) view.Show(last, absl::Now());
    return !deleted && !HasEnded(last.state());
  };
  watch.on_outage = [&](const grpc::Status&) {
    view.Clear();
    program.Note(absl::StrCat("the controller at ", program.ServerText(),
                              " does not answer; the job goes on, and so does this when it is "
                              "back"));
  };
  const grpc::Status status = WatchJobs(program.client(), watch);
  view.Clear();
  if (program.interrupt().raised()) {
    program.Note(absl::StrCat(job_id, " goes on. `paceline job watch ", job_id,
                              "` follows it again, `paceline job cancel ", job_id, "` ends it."));
    return kCliInterrupted;
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return program.Fail(kCliTimeout,
                        absl::StrCat(job_id, " is ", StateText(last.state()),
                                     " and has not ended in the time given; it goes on"));
  }
  if (!status.ok()) return program.Fail(status);
  if (deleted) return program.Fail(kCliNotFound, absl::StrCat(job_id, " was deleted"));
  const bool shown = options.silent || (options.events && program.json());
  if (!shown) ShowEnd(program, last, view.reported());
  return last.state() == v1::SUCCEEDED ? kCliOk : kCliFailed;
}

void AddJobFollowing(CLI::App& parent, Program& program) {
  AddJobWait(parent, program);
  AddJobWatch(parent, program);
}

}  // namespace paceline
