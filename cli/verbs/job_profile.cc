// paceline job profile JOB
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/rpc/job_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/rank_log.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/figures_text.h"
#include "cli/view/job_text.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace paceline {
namespace {

struct JobProfileFlags {
  std::string job;
  std::string ranks;
  std::string request_id;
  int steps = 3;
  bool memory = false;
  bool no_wait = false;
};

bool AllAnswered(const v1::Job& job) {
  return std::all_of(job.profile().ranks().begin(), job.profile().ranks().end(),
                     [&](int rank) { return HasAnswered(job, rank); });
}

bool AllWell(const v1::Job& job) {
  return AllAnswered(job) &&
         std::all_of(job.ranks().begin(), job.ranks().end(), [&](const auto& r) {
           return r.profile().id() != job.profile().request().id() || r.profile().error().empty();
         });
}

std::string OrderText(const v1::Job& job) {
  const v1::ProfileRequest& request = job.profile().request();
  return absl::StrCat("profile ", request.id(), " of ", NeutralLine(job.spec().name()), " (",
                      NeutralLine(job.id()), "): steps ", request.first_step(), " to ",
                      request.first_step() + request.steps() - 1, " on ranks ",
                      absl::StrJoin(job.profile().ranks(), ","));
}

int ProfileJob(Program& program, const JobProfileFlags& flags) {
  v1::ProfileJobRequest request;
  request.set_job(flags.job);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_steps(flags.steps);
  request.set_memory(flags.memory);
  const std::vector<int> ranks = ParseRanks(flags.ranks);
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  v1::Job job;
  grpc::Status status = program.client().ProfileJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  if (flags.no_wait) {
    if (program.json()) {
      program.PrintJson(job);
    } else {
      program.out() << OrderText(job) << std::endl;
    }
    return kCliOk;
  }
  program.Note(OrderText(job));
  const int64_t id = job.profile().request().id();
  JobWatch watch;
  watch.job_id = job.id();
  watch.each = [&](const v1::JobEvent& event) {
    // Somebody may ask for the next one once this is done.
    if (event.type() == v1::DELETED || event.job().profile().request().id() != id) return false;
    job = event.job();
    return !AllAnswered(job) && !HasEnded(job.state());
  };
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  if (!AllAnswered(job)) status = WatchJobs(program.client(), watch);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(job);
  } else {
    const PageStyle style = program.style();
    program.out() << ProfileTable(job, style.width, style.colours) << std::flush;
  }
  return AllWell(job) ? kCliOk : kCliFailed;
}

}  // namespace

void AddJobProfile(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobProfileFlags>();
  CLI::App* verb = parent.add_subcommand(
      "profile", "Trace the same few steps on ranks of a running job, for Chrome's trace viewer");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--steps", flags->steps, "Steps to trace")
      ->check(WholeNumber(1, 100))
      ->capture_default_str();
  verb->add_option("--ranks", flags->ranks, "Ranks such as 0 or 0,3-7. Default: all")
      ->check([](const std::string& text) {
        return ParseRanks(text).empty() ? "takes ranks such as 0 or 0,3-7" : std::string();
      });
  verb->add_flag("--memory", flags->memory, "A memory snapshot too; device cuda only");
  verb->add_flag("--no-wait", flags->no_wait, "Do not wait for the traces");
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ProfileJob(program, *flags); };
  });
}

}  // namespace paceline
