// paceline diag [JOB]
#include <sys/utsname.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/config/config_file.h"
#include "cli/text/redacted.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/cluster/cluster.h"
#include "cli/verbs/job/rank_log.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_table.h"
#include "common/atomic_file/atomic_file.h"
#include "common/version.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/straggler.pb.h"

namespace paceline {
namespace {

// Number of ranks whose logs are included, the failed one first.
constexpr int kMostLogs = 8;
constexpr size_t kMostLogBytes = 256 * 1024;

struct DiagFlags {
  std::string job;
  std::string out;
  int log_lines = 200;
};

// Sections of text with titles. What cannot be had is reported in its place, so that a report is
// made whatever is broken.
class Report {
 public:
  void Add(const std::string& name, const std::string& text) {
    absl::StrAppend(&text_, "==== ", name, "\n", text,
                    text.empty() || text.back() == '\n' ? "\n" : "\n\n");
  }

  template <typename Message>
  void AddMessage(const std::string& name, const std::function<grpc::Status(Message*)>& fetch) {
    Message message;
    const grpc::Status status = fetch(&message);
    Add(name, status.ok() ? Program::JsonOf(message) : FailureText(status));
  }

  static std::string FailureText(const grpc::Status& status) {
    return absl::StrCat("cannot be had: ", status.error_message(), " (code ",
                        static_cast<int>(status.error_code()), ")");
  }

  // The text without secrets and control characters.
  std::string Text() const { return Sanitize(Redacted(text_)); }

 private:
  std::string text_;
};

void AddProgram(Program& program, Report* report) {
  utsname system = {};
  uname(&system);
  report->Add("program",
              absl::StrCat("paceline ", kVersion, "\nat ", absl::FormatTime(absl::Now()), "\non ",
                           system.sysname, " ", system.release, " ", system.machine));
  std::string text;
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  absl::StrAppend(&text, "server: ",
                  choice.ok() ? program.ServerText() : std::string(choice.status().message()),
                  "\nconfiguration: ", program.config_path(), "\n");
  for (const char* name : {"PACELINE_SERVER", "PACELINE_CONTEXT", "PACELINE_CONFIG",
                           "PACELINE_TLS_DIR", "PACELINE_TOKEN_FILE", "PACELINE_PLAINTEXT",
                           "PACELINE_DEV_DIR", "NO_COLOR", "TERM", "LANG"}) {
    absl::StrAppend(&text, name, "=", program.Variable(name), "\n");
  }
  report->Add("settings", text);
}

void AddCluster(Program& program, Report* report) {
  ClusterFacts facts;
  const grpc::Status status = FetchCluster(program, &facts);
  if (!status.ok()) {
    report->Add("cluster", Report::FailureText(status));
    return;
  }
  report->Add("cluster", ClusterPage(facts, absl::Now(), {}));
  v1::ListNodesResponse nodes;
  nodes.mutable_nodes()->Add(facts.nodes.begin(), facts.nodes.end());
  report->Add("nodes", Program::JsonOf(nodes));
  report->Add("automation", Program::JsonOf(facts.automation));
  v1::ListJobsRequest request;
  request.set_page_size(50);
  v1::ListJobsResponse jobs;
  const grpc::Status listed = program.client().Call(methods::kJobList, request, &jobs);
  PageStyle style;
  style.wide = true;
  report->Add("jobs", listed.ok()
                          ? JobTable({jobs.jobs().begin(), jobs.jobs().end()}, absl::Now(), style)
                          : Report::FailureText(listed));
}

std::string LogText(Program& program, const v1::Job& job, int rank, int lines) {
  std::string text;
  RankLog log;
  log.job_id = job.id();
  log.rank = rank;
  log.tail_lines = lines;
  log.each = [&](absl::string_view data) {
    absl::StrAppend(&text, data);
    if (text.size() > kMostLogBytes) text.erase(0, text.size() - kMostLogBytes);
  };
  log.on_trainer = [](const std::string&) {};
  log.on_gap = [](int64_t) {};
  // Somebody waits for the report, so what cannot be reached is left out.
  log.patient = false;
  log.on_outage = [](const grpc::Status&) {};
  const grpc::Status status = ReadRankLog(program.client(), log);
  return status.ok() ? text : absl::StrCat(text, Report::FailureText(status));
}

void AddJob(Program& program, const v1::Job& job, int log_lines, Report* report) {
  report->Add("job", Program::JsonOf(job));
  Client& client = program.client();
  report->AddMessage<v1::WhyResponse>("why", [&](v1::WhyResponse* response) {
    v1::WhyRequest request;
    request.set_job(job.id());
    return client.Call(methods::kJobWhy, request, response);
  });
  report->AddMessage<v1::JobAdvice>("advice", [&](v1::JobAdvice* advice) {
    v1::AdviseRequest request;
    request.set_job(job.id());
    return client.Call(methods::kJobAdvise, request, advice);
  });
  report->AddMessage<v1::ListCheckpointsResponse>(
      "checkpoints", [&](v1::ListCheckpointsResponse* checkpoints) {
        v1::ListCheckpointsRequest request;
        request.set_job(job.id());
        request.set_page_size(20);
        return client.Call(methods::kCheckpointList, request, checkpoints);
      });
  std::vector<int> ranks;
  if (job.has_failure()) ranks.push_back(job.failure().rank());
  for (int rank = 0; rank < job.ranks_size(); ++rank) {
    if (std::count(ranks.begin(), ranks.end(), rank) == 0) ranks.push_back(rank);
  }
  if (ranks.size() > kMostLogs) ranks.resize(kMostLogs);
  for (const int rank : ranks) {
    report->Add(absl::StrCat("log of rank ", rank), LogText(program, job, rank, log_lines));
  }
}

int Write(Program& program, const DiagFlags& flags, const std::string& text) {
  if (flags.out == "-") {
    program.out() << text << std::flush;
    return kCliOk;
  }
  const std::string path = flags.out.empty() ? absl::FormatTime("paceline-diag-%Y%m%d-%H%M%S.txt",
                                                                absl::Now(), absl::LocalTimeZone())
                                             : flags.out;
  const absl::Status written = WriteFileAtomically(path, {absl::string_view(text)});
  if (!written.ok()) return program.Fail(written);
  program.out() << SanitizeLine(path) << std::endl;
  program.Note(
      "it holds names of nodes, jobs and files, and lines of logs; what looks like a secret "
      "is removed, but read it before you send it");
  return kCliOk;
}

int Diagnose(Program& program, const DiagFlags& flags) {
  v1::Job job;
  if (!flags.job.empty()) {
    v1::GetJobRequest request;
    request.set_job(flags.job);
    const grpc::Status status = program.client().Call(methods::kJobGet, request, &job);
    // A wrong name is easily corrected; all other errors are what the report is about.
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return program.Fail(status);
  }
  Report report;
  AddProgram(program, &report);
  AddCluster(program, &report);
  if (!job.id().empty()) AddJob(program, job, flags.log_lines, &report);
  if (program.interrupt().raised()) return kCliInterrupted;
  return Write(program, flags, report.Text());
}

}  // namespace

void AddDiag(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DiagFlags>();
  CLI::App* verb = parent.add_subcommand(
      "diag", "Write what a bug report needs into one text file, secrets removed");
  verb->add_option("JOB", flags->job,
                   "A job that it is about, with logs: id, unique beginning of an id, or name");
  verb->add_option("--out", flags->out,
                   "The file; - is the output. Default: paceline-diag-DATE-TIME.txt")
      ->check(PlainPath());
  verb->add_option("--log-lines", flags->log_lines, "Last lines of each rank's log")
      ->check(WholeNumber(1, 10000))
      ->capture_default_str();
  RunWith(*verb, program, flags, Diagnose);
}

}  // namespace paceline
