// paceline job metrics JOB
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/text/utf8_locale.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "cli/view/series_page.h"
#include "proto/job.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

struct JobMetricsFlags {
  std::string job;
  double minutes = 10;
};

int ShowMetrics(Program& program, const JobMetricsFlags& flags) {
  v1::GetJobRequest wanted;
  wanted.set_job(flags.job);
  v1::Job job;
  grpc::Status status = program.client().GetJob(wanted, &job);
  if (!status.ok()) return program.Fail(status);
  v1::GetJobSeriesRequest request;
  request.set_job(job.id());
  request.set_minutes(flags.minutes);
  v1::JobSeries series;
  status = program.client().GetJobSeries(request, &series);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(series);
    return kCliOk;
  }
  const bool utf8 = SpeaksUtf8([&](const char* name) { return program.Variable(name); });
  const std::string page = SeriesPage(series, program.style(), utf8);
  if (page.empty()) {
    program.Note(absl::StrCat(job.id(), " is ", StateText(job.state()),
                              ", and nothing of its last minutes is known"));
    return kCliOk;
  }
  program.out() << NeutralLine(job.spec().name()) << " (" << NeutralLine(job.id()) << ") is "
                << StateText(job.state()) << ", step " << job.progress().step() << " of "
                << job.spec().steps() << "\n\n"
                << page << std::flush;
  return kCliOk;
}

}  // namespace

void AddJobMetrics(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobMetricsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "metrics", "Show how step time, throughput, loss, MFU and waits of a job went lately");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--minutes", flags->minutes, "The last so many; 0: all that are kept")
      ->check(Number(0, 1e6))
      ->capture_default_str();
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ShowMetrics(program, *flags); };
  });
}

}  // namespace paceline
