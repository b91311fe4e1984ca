// paceline job logs JOB
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/rpc/error_text.h"
#include "cli/rpc/watch.h"
#include "cli/text/host_list.h"
#include "cli/text/past_moment.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/job/job_output.h"
#include "cli/verbs/job/rank_log.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_text.h"
#include "common/core/status_macros.h"
#include "proto/job.pb.h"
#include "re2/re2.h"

namespace paceline {
namespace {

// Each followed rank has a thread.
constexpr size_t kMostFollowed = 64;
// Logs read at once, when they are not followed.
constexpr size_t kMostRead = 16;

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

// Writes the matching lines of several ranks, keeping each line whole. Thread-safe.
class LogPrinter {
 public:
  // `pattern`: null matches all lines.
  LogPrinter(Program& program, bool prefixed, const RE2* pattern)
      : program_(program), prefixed_(prefixed), pattern_(pattern) {}

  void Print(int rank, const std::vector<std::string>& lines) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    for (const std::string& line : lines) {
      if (pattern_ != nullptr && !RE2::PartialMatch(line, *pattern_)) continue;
      Clear();
      program_.out() << Prefix(rank) << Sanitize(line) << "\n";
    }
    program_.out() << std::flush;
  }

  // On a terminal: shows a line that is still being overwritten, in place of the previous one.
  void Draw(int rank, const std::string& draft) ABSL_LOCKS_EXCLUDED(mutex_) {
    const int width = program_.style().width;
    if (draft.empty() || !program_.out_is_terminal() || width <= 0 || pattern_ != nullptr) return;
    const absl::MutexLock lock(&mutex_);
    Clear();
    program_.out() << Shortened(absl::StrCat(Prefix(rank), SanitizeLine(draft)), width - 1)
                   << std::flush;
    drawn_ = true;
  }

 private:
  std::string Prefix(int rank) const { return prefixed_ ? absl::StrCat("[rank ", rank, "] ") : ""; }

  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(drawn_, false)) program_.out() << "\r\x1b[K";
  }

  Program& program_;
  const bool prefixed_;
  const RE2* const pattern_;
  absl::Mutex mutex_;
  bool drawn_ ABSL_GUARDED_BY(mutex_) = false;
};

// Decides whose lines are printed now when several logs are read at once up to their ends: one
// whole log after the other, by rank. A rank that has not answered for kPatience does not hold up
// others. Thread-safe.
class LogTurns {
 public:
  // The rank's log has been asked for; call it in the order of ranks.
  void Begin(int rank) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    open_[rank].asked = absl::Now();
  }

  // The rank has lines: waits for its turn, which it keeps until its end.
  void Take(int rank) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    open_[rank].has_lines = true;
    while (turn_ != rank && !MayTake(rank)) changed_.WaitWithTimeout(&mutex_, kPatience);
    turn_ = rank;
  }

  void End(int rank) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    open_.erase(rank);
    if (turn_ == rank) turn_ = kNobody;
    changed_.SignalAll();
  }

 private:
  static constexpr absl::Duration kPatience = absl::Seconds(1);
  static constexpr int kNobody = -1;
  struct Rank {
    absl::Time asked;
    bool has_lines = false;
  };

  bool MayTake(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (turn_ != kNobody) return false;
    const absl::Time now = absl::Now();
    return std::all_of(open_.begin(), open_.find(rank), [&](const auto& lower) {
      return !lower.second.has_lines && now - lower.second.asked >= kPatience;
    });
  }

  absl::Mutex mutex_;
  absl::CondVar changed_;
  int turn_ ABSL_GUARDED_BY(mutex_) = kNobody;
  std::map<int, Rank> open_ ABSL_GUARDED_BY(mutex_);
};

// How reading one rank's log ended.
struct LogEnd {
  int rank = 0;
  std::string node;
  grpc::Status status;
};

// `wanted`: the settings that all ranks share. `end`: of this rank and its node. `turns`: null
// prints each line as it comes.
void PrintRank(Program& program, Client& client, const RankLog& wanted, LogPrinter& printer,
               LogTurns* turns, LogEnd& end) {
  const int rank = end.rank;
  LineSplitter splitter;
  RankLog log = wanted;
  log.rank = rank;
  const auto print_rest = [&] {
    const std::string rest = splitter.Rest();
    if (!rest.empty()) printer.Print(rank, {rest});
  };
  log.each = [&](absl::string_view data) {
    if (turns != nullptr) turns->Take(rank);
    printer.Print(rank, splitter.Add(data));
    if (turns == nullptr) printer.Draw(rank, splitter.Draft());
  };
  log.on_trainer = [&](const std::string& node) {
    print_rest();
    end.node = node;
    program.Note(absl::StrCat("rank ", rank, " is now on ", SanitizeLine(node)));
  };
  log.on_gap = [&](int64_t bytes) {
    program.Note(absl::StrCat("rank ", rank, ": ", bytes, " bytes are no longer kept"));
  };
  log.on_outage = [&](const grpc::Status& status) {
    // The controller gives reasons for its errors; without one the controller itself is away.
    const std::string what =
        ErrorReason(status).empty()
            ? absl::StrCat("the controller at ", program.ServerText(), " does not answer")
            : SanitizeLine(status.error_message());
    program.Note(absl::StrCat("rank ", rank, ": ", what, "; going on when it is back"));
  };
  end.status = ReadRankLog(client, log);
  print_rest();
}

// Prints bytes as they come, as if the rank wrote to this terminal.
void PrintRaw(Program& program, Client& client, const RankLog& wanted, LogEnd& end) {
  RankLog log = wanted;
  log.rank = end.rank;
  log.each = [&](absl::string_view data) { program.out() << data << std::flush; };
  log.on_trainer = [&](const std::string& node) { end.node = node; };
  log.on_gap = [&](int64_t bytes) {
    program.Note(absl::StrCat(bytes, " bytes of output are no longer kept"));
  };
  log.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  end.status = ReadRankLog(client, log);
}

// Waits until the job has ranks, or has ended without any.
grpc::Status AwaitRanks(Program& program, v1::Job* job) {
  JobWatch watch;
  watch.job_id = job->id();
  watch.each = [&](const v1::JobEvent& event) {
    *job = event.job();
    return job->ranks().empty() && !HasEnded(job->state()) && event.type() != v1::DELETED;
  };
  watch.on_outage = [](const grpc::Status&) {};
  program.Note(
      absl::StrCat(job->id(), " is ", StateText(job->state()), ": ", SanitizeLine(job->reason())));
  return WatchJobs(program.client(), watch);
}

// Returns those of `ranks` that run, or ran, on one of the nodes. NotFound, with the job's nodes,
// if none does.
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
                                          SanitizeLine(absl::StrJoin(present, ", "))));
}

// Returns the ranks asked for. NotFound if the job lacks one of them, or none is on such a node;
// InvalidArgument if there are too many to follow.
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

// Whether the error is about the log of one rank, and not about the command.
bool IsOfOneRank(const grpc::Status& status) {
  return NodeIsAway(status) || absl::StartsWith(ErrorReason(status), "LOG_");
}

// Reports whose lines are missing. Returns the exit code.
int TellMissing(Program& program, const std::vector<LogEnd>& ends) {
  using Missing = std::pair<std::string, std::string>;  // Node, and why.
  std::map<Missing, std::vector<int>> missing;
  int exit = kCliOk;
  for (const LogEnd& end : ends) {
    if (end.status.ok()) continue;
    if (!IsOfOneRank(end.status)) return program.Fail(end.status);
    const std::string why = NodeIsAway(end.status) ? "not heard of" : end.status.error_message();
    missing[{end.node, why}].push_back(end.rank);
    if (exit == kCliOk) exit = ExitOf(end.status);
  }
  for (const auto& [what, ranks] : missing) {
    const bool one = ranks.size() == 1;
    program.Fail(kCliFailed,
                 absl::StrCat(one ? "rank " : "ranks ", absl::StrJoin(ranks, ", "), " on ",
                              SanitizeLine(what.first), ": ", SanitizeLine(what.second), "; ",
                              one ? "its" : "their", " lines are missing"));
  }
  return exit;
}

int PrintRanks(Program& program, const RankLog& wanted, std::vector<LogEnd> ends,
               const JobLogsFlags& flags) {
  const RE2 pattern(flags.grep);
  LogPrinter printer(program, ends.size() > 1 && !flags.no_prefix,
                     flags.grep.empty() ? nullptr : &pattern);
  LogTurns turns;
  absl::Mutex mutex;
  size_t next = 0;
  const auto read = [&] {
    while (true) {
      LogEnd* end = nullptr;
      {
        const absl::MutexLock lock(&mutex);
        if (next == ends.size()) return;
        end = &ends[next++];
        if (!flags.follow) turns.Begin(end->rank);
      }
      PrintRank(program, program.client(), wanted, printer, flags.follow ? nullptr : &turns, *end);
      if (!flags.follow) turns.End(end->rank);
    }
  };
  std::vector<std::thread> readers;
  const size_t at_once = flags.follow ? kMostFollowed : kMostRead;
  while (readers.size() < std::min(at_once, ends.size())) readers.emplace_back(read);
  for (std::thread& reader : readers) reader.join();
  return TellMissing(program, ends);
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
  std::vector<LogEnd> ends;
  for (const int rank : *chosen) ends.push_back({rank, job.ranks(rank).node(), {}});
  return PrintRanks(program, wanted, std::move(ends), flags);
}

// Returns what is wrong with a regular expression; empty: nothing.
std::string ProblemOf(const std::string& pattern) {
  const RE2 compiled(pattern, RE2::Quiet);
  return compiled.ok() ? "" : absl::StrCat("is no regular expression: ", compiled.error());
}

}  // namespace

grpc::Status PrintJobOutput(Program& program, Client& client, const std::string& job_id, int rank,
                            v1::Job* job) {
  JobWatch watch;
  watch.job_id = job_id;
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  std::string reported;
  watch.each = [&](const v1::JobEvent& event) {
    *job = event.job();
    if (job->state() == v1::QUEUED && job->reason() != std::exchange(reported, job->reason())) {
      program.Note(absl::StrCat(job_id, " waits: ", SanitizeLine(job->reason())));
    }
    return job->ranks().empty() && !HasEnded(job->state()) && event.type() != v1::DELETED;
  };
  grpc::Status status = WatchJobs(client, watch);
  if (!status.ok()) return status;

  RankLog wanted;
  wanted.job_id = job_id;
  wanted.follow = true;
  LogPrinter printer(program, /*prefixed=*/true, /*pattern=*/nullptr);
  std::vector<LogEnd> ends;
  std::vector<std::thread> readers;
  if (rank != kAllRanks && !job->ranks().empty()) {
    ends.push_back({rank, job->ranks(rank).node(), {}});
    PrintRaw(program, client, wanted, ends.front());
  } else {
    const int ranks = std::min(job->ranks_size(), static_cast<int>(kMostFollowed));
    for (int r = 0; r < ranks; ++r) ends.push_back({r, job->ranks(r).node(), {}});
    for (LogEnd& end : ends) {
      readers.emplace_back(
          [&] { PrintRank(program, client, wanted, printer, /*turns=*/nullptr, end); });
    }
  }
  for (std::thread& reader : readers) reader.join();
  if (client.interrupt().raised()) return {grpc::StatusCode::CANCELLED, "interrupted"};
  TellMissing(program, ends);
  watch.each = [&](const v1::JobEvent& event) {
    *job = event.job();
    return !HasEnded(job->state()) && event.type() != v1::DELETED;
  };
  return WatchJobs(client, watch);
}

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
