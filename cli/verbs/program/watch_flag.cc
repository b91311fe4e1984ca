#include "cli/verbs/program/watch_flag.h"

#include <map>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/time/clock.h"
#include "cli/rpc/watch.h"
#include "cli/text/reported_once.h"
#include "cli/text/sanitize.h"
#include "cli/view/job/progress_line.h"

namespace paceline {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(5);

}  // namespace

std::function<void(const grpc::Status&)> OutageNote(Program& program) {
  return [&program](const grpc::Status&) { program.Note(program.OutageText()); };
}

void AddWatchFlag(CLI::App& verb, bool* watch) {
  verb.add_flag("-w,--watch", *watch, "Go on, and show each change, until Ctrl-C");
}

bool WatchesInPlace(const Program& program) {
  return program.redraws() && !program.json() && !program.names();
}

int TellJobChanges(Program& program, const std::function<bool(const v1::Job&)>& wanted) {
  struct Shown {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    absl::Time when = absl::InfinitePast();
  };
  std::map<std::string, Shown> shown;
  JobWatch watch;
  ReportedOnce reported;
  watch.each = [&](const v1::JobEvent& event) {
    const v1::Job& job = event.job();
    // A job that was shown is shown once more when it is no longer wanted.
    if (!wanted(job) && shown.count(job.id()) == 0) return true;
    const Shown last = shown[job.id()];
    const absl::Time now = absl::Now();
    const bool gone = event.type() == v1::DELETED || !wanted(job);
    const bool tell = gone || job.state() != last.state || now >= last.when + kProgressInterval;
    if (gone) {
      shown.erase(job.id());
    } else {
      shown[job.id()] = {job.state(), tell ? now : last.when};
    }
    if (program.json()) {
      program.PrintJsonLine(event);
      return true;
    }
    if (event.type() == v1::DELETED) {
      program.out() << SanitizeLine(job.id()) << " deleted" << std::endl;
      return true;
    }
    if (!tell) return true;
    program.out() << SanitizeLine(job.id());
    if (!program.names()) program.out() << " " << ProgressText(job, &reported);
    program.out() << std::endl;
    return true;
  };
  watch.on_outage = OutageNote(program);
  return program.Fail(WatchJobs(program.client(), watch));
}

}  // namespace paceline
