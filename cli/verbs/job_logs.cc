// paceline job logs JOB
#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/rpc/error_text.h"
#include "cli/rpc/watch.h"
#include "cli/text/host_list.h"
#include "cli/text/neutral.h"
#include "cli/text/past_moment.h"
#include "cli/verbs/rank_log.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "common/core/status_macros.h"
#include "proto/job.pb.h"
#include "re2/re2.h"

namespace paceline {
namespace {

// Each has a thread while it is followed.
constexpr size_t kMostFollowed = 64;

struct JobLogsFlags {
  std::string job;
  std::string ranks;
  std::string nodes;
  std::string grep;
  std::string since;
  int tail = 0;
  bool follow = false;
  bool no_prefix = false;
};

// Writes the lines of several ranks that match, each line whole. Thread-safe.
class LogPrinter {
 public:
  // `pattern`: null for all lines.
  LogPrinter(Program& program, bool prefixed, const RE2* pattern)
      : program_(program), prefixed_(prefixed), pattern_(pattern) {}

  void Print(int rank, const std::vector<std::string>& lines) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    for (const std::string& line : lines) {
      if (pattern_ != nullptr && !RE2::PartialMatch(line, *pattern_)) continue;
      if (prefixed_) program_.out() << "[rank " << rank << "] ";
      program_.out() << Neutral(line) << "\n";
    }
    program_.out() << std::flush;
  }

 private:
  Program& program_;
  const bool prefixed_;
  const RE2* const pattern_;
  absl::Mutex mutex_;
};

// `wanted`: what is common to all ranks.
grpc::Status PrintRank(Program& program, const RankLog& wanted, int rank, LogPrinter& printer) {
  LineSplitter splitter;
  RankLog log = wanted;
  log.rank = rank;
  const auto print_rest = [&] {
    const std::string rest = splitter.Rest();
    if (!rest.empty()) printer.Print(rank, {rest});
  };
  log.each = [&](absl::string_view data) { printer.Print(rank, splitter.Add(data)); };
  log.on_trainer = [&](const std::string& node) {
    print_rest();
    program.Note(absl::StrCat("rank ", rank, " is now on ", NeutralLine(node)));
  };
  log.on_gap = [&](int64_t bytes) {
    program.Note(absl::StrCat("rank ", rank, ": ", bytes, " bytes are no longer kept"));
  };
  log.on_outage = [&](const grpc::Status& status) {
    // The controller gives reasons; without one it is the controller that is away.
    const std::string what =
        ErrorReason(status).empty()
            ? absl::StrCat("the controller at ", program.ServerText(), " does not answer")
            : NeutralLine(status.error_message());
    program.Note(absl::StrCat("rank ", rank, ": ", what, "; going on when it is back"));
  };
  const grpc::Status status = ReadRankLog(program.client(), log);
  print_rest();
  return status;
}

// Waits until the job has ranks, or has ended without.
grpc::Status AwaitRanks(Program& program, v1::Job* job) {
  JobWatch watch;
  watch.job_id = job->id();
  watch.each = [&](const v1::JobEvent& event) {
    *job = event.job();
    return job->ranks().empty() && !HasEnded(job->state()) && event.type() != v1::DELETED;
  };
  watch.on_outage = [](const grpc::Status&) {};
  program.Note(
      absl::StrCat(job->id(), " is ", StateText(job->state()), ": ", NeutralLine(job->reason())));
  return WatchJobs(program.client(), watch);
}

// Those of `ranks` that run, or ran, on one of the nodes. NotFound, with the job's nodes, when none
// does.
absl::StatusOr<std::vector<int>> OnNodes(const v1::Job& job, const std::vector<int>& ranks,
                                         const std::string& words) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, ExpandHosts({words}));
  std::vector<int> chosen;
  std::set<std::string> present;
  for (const int rank : ranks) {
    const std::string& node = job.ranks(rank).node();
    present.insert(node);
    if (std::count(nodes.begin(), nodes.end(), node) > 0) chosen.push_back(rank);
  }
  if (!chosen.empty()) return chosen;
  return absl::NotFoundError(absl::StrCat("no such rank of ", job.id(), " is on ",
                                          absl::StrJoin(nodes, ", "), "; they are on ",
                                          NeutralLine(absl::StrJoin(present, ", "))));
}

// The ranks asked for. NotFound when the job lacks one of them, or none is on such a node;
// InvalidArgument when they are too many to be followed.
absl::StatusOr<std::vector<int>> ChosenRanks(const v1::Job& job, const JobLogsFlags& flags) {
  const int count = job.ranks_size();
  std::vector<int> ranks = ParseRanks(flags.ranks);
  if (flags.ranks.empty()) {
    ranks.resize(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  if (ranks.back() >= count) {
    return absl::NotFoundError(
        absl::StrCat(job.id(), " has no rank ", ranks.back(), "; its ranks are 0 to ", count - 1));
  }
  if (!flags.nodes.empty()) {
    PACELINE_ASSIGN_OR_RETURN(ranks, OnNodes(job, ranks, flags.nodes));
  }
  if (flags.follow && ranks.size() > kMostFollowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kMostFollowed, " ranks can be followed; choose with --rank 0-63"));
  }
  return ranks;
}

int PrintRanks(Program& program, const RankLog& wanted, const std::vector<int>& ranks,
               const JobLogsFlags& flags) {
  const RE2 pattern(flags.grep);
  LogPrinter printer(program, ranks.size() > 1 && !flags.no_prefix,
                     flags.grep.empty() ? nullptr : &pattern);
  std::vector<grpc::Status> ends(ranks.size());
  if (flags.follow) {
    std::vector<std::thread> readers;
    for (size_t i = 0; i < ranks.size(); ++i) {
      readers.emplace_back([&, i] { ends[i] = PrintRank(program, wanted, ranks[i], printer); });
    }
    for (std::thread& reader : readers) reader.join();
  } else {
    for (size_t i = 0; i < ranks.size(); ++i) {
      ends[i] = PrintRank(program, wanted, ranks[i], printer);
    }
  }
  for (const grpc::Status& end : ends) {
    if (!end.ok()) return program.Fail(end);
  }
  return kCliOk;
}

int PrintLogs(Program& program, const JobLogsFlags& flags) {
  RankLog wanted;
  wanted.tail_lines = flags.tail;
  wanted.follow = flags.follow;
  if (!flags.since.empty()) {
    const auto since = ParsePastMoment(flags.since, absl::Now(), absl::LocalTimeZone());
    if (!since.ok()) return program.Fail(since.status());
    wanted.since = *since;
  }
  v1::Job job;
  grpc::Status status = GetJob(program, flags.job, &job);
  if (status.ok() && job.ranks().empty() && flags.follow && !HasEnded(job.state())) {
    status = AwaitRanks(program, &job);
  }
  if (!status.ok()) return program.Fail(status);
  if (job.ranks().empty()) {
    return program.Fail(kCliRefused, absl::StrCat(job.id(), " is ", StateText(job.state()),
                                                  " and no rank of it has run"));
  }
  const absl::StatusOr<std::vector<int>> chosen = ChosenRanks(job, flags);
  if (!chosen.ok()) return program.Fail(chosen.status());
  wanted.job_id = job.id();
  return PrintRanks(program, wanted, *chosen, flags);
}

// What is wrong with a regular expression; empty: nothing.
std::string ProblemOf(const std::string& pattern) {
  const RE2 compiled(pattern, RE2::Quiet);
  return compiled.ok() ? "" : absl::StrCat("is no regular expression: ", compiled.error());
}

}  // namespace

void AddJobLogs(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobLogsFlags>();
  CLI::App* verb = parent.add_subcommand("logs", "Print what a job's ranks wrote");
  AddJob(*verb, flags->job);
  verb->add_flag("-f,--follow", flags->follow, "Go on until the job has ended");
  verb->add_option("--rank", flags->ranks, "Ranks such as 0 or 0,3-7. Default: all")
      ->check([](const std::string& text) {
        return ParseRanks(text).empty() ? "takes ranks such as 0 or 0,3-7" : std::string();
      });
  auto* tail = verb->add_option("--tail", flags->tail,
                                "Begin so many lines before the end; 0: at the beginning")
                   ->check(WholeNumber(0, 1000000));
  verb->add_option("--since", flags->since,
                   "Begin with what was written since then: 10m or 1h30m ago, at 14:05, or at "
                   "'2026-11-22 14:05'")
      ->excludes(tail);
  verb->add_option("--node", flags->nodes, "Only ranks on this node, or on those of n[01-16],m3");
  verb->add_option(
          "--grep", flags->grep,
          "Only lines that match this regular expression (RE2's syntax; (?i) ignores case)")
      ->check(ProblemOf);
  verb->add_flag("--no-prefix", flags->no_prefix, "No [rank N] before the lines of several ranks");
  verb->callback([flags, &program] {
    if (program.json()) throw CLI::ValidationError("--output", "job logs prints text only");
    program.action = [flags, &program] { return PrintLogs(program, *flags); };
  });
}

}  // namespace paceline
