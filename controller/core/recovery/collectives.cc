#include "controller/core/recovery/collectives.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

// Nodes wait a few seconds for the answer of a rank's process
// (worker/daemon/trainers/asked_collectives.h); then their report has to come.
constexpr absl::Duration kAnswerPatience = absl::Seconds(7);
constexpr absl::Duration kLeastInterval = absl::Minutes(1);
constexpr size_t kRangesReported = 8;
constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// ---- Words.

// "rank 2", "ranks 0-1, 3".
std::string RanksText(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges.size() == kRangesReported) {
      ranges.push_back(absl::StrCat("and ", ranks.size() - i, " more"));
      break;
    }
    ranges.push_back(last == i ? absl::StrCat(ranks[i]) : absl::StrCat(ranks[i], "-", ranks[last]));
    i = last + 1;
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranges, ", "));
}

const char* Either(size_t count, const char* one, const char* more) {
  return count == 1 ? one : more;
}

// "default_pg", "2": the group's purpose if torch knows it, else its name.
std::string NameOf(const GroupCollectives& group) {
  const bool reported = !group.description.empty() && group.description != "undefined";
  return reported ? group.description : group.name;
}

std::string InputText(const Collective& collective) {
  return collective.input.empty() ? "" : absl::StrCat(" (", collective.input, ")");
}

// ---- One group.

const Collective* FindNumber(const GroupCollectives& group, int64_t number) {
  const auto found =
      std::find_if(group.collectives.begin(), group.collectives.end(),
                   [&](const Collective& collective) { return collective.number == number; });
  return found == group.collectives.end() ? nullptr : &*found;
}

// The number of the first collective that a member waits in; kNone: it waits in none.
int64_t FirstWaited(const GroupCollectives& group, bool has_failed) {
  for (const Collective& collective : group.collectives) {
    if (!collective.finished) return collective.number;
  }
  return has_failed && group.newest && group.last > 0 ? group.last : kNone;
}

// Whether all ranks must give the operation inputs of the same size and type.
bool HasEqualInputs(const std::string& operation) {
  for (const char* equal : {"all_reduce", "broadcast", "reduce", "all_gather_base",
                            "allgather_base", "reduce_scatter_base", "allreduce"}) {
    if (operation == equal) return true;
  }
  return false;
}

// The part of a call that must be the same on all ranks.
std::string CallText(const Collective& called) {
  return called.operation + (HasEqualInputs(called.operation) ? InputText(called) : "");
}

struct Member {
  int rank;
  const GroupCollectives* group;
  int64_t waits_in;  // kNone: in none.
};

// What members called under this number, and who did. More than one entry: a mismatch.
std::map<std::string, std::vector<int>> CallsOf(const std::vector<Member>& members,
                                                int64_t number) {
  std::map<std::string, std::vector<int>> calls;
  for (const Member& member : members) {
    const Collective* const called = FindNumber(*member.group, number);
    if (called != nullptr) calls[CallText(*called)].push_back(member.rank);
  }
  return calls;
}

// The first number under which members called different things; kNone: there is none.
int64_t FirstMismatch(const std::vector<Member>& members) {
  std::map<int64_t, std::string> first;
  int64_t found = kNone;
  for (const Member& member : members) {
    for (const Collective& called : member.group->collectives) {
      const std::string text = CallText(called);
      const auto [known, is_new] = first.emplace(called.number, text);
      if (!is_new && known->second != text) found = std::min(found, called.number);
    }
  }
  return found;
}

struct Finding {
  int order;  // The lower it is, the more it explains.
  std::string text;
};

class GroupFinder {
 public:
  // For each rank, what it waits in ("all_gather #7 of group tp"), by the group's name.
  using Elsewhere = std::map<int, std::map<std::string, std::string>>;

  GroupFinder(const std::vector<Member>& members, std::vector<int> unknown,
              const Elsewhere& elsewhere)
      : members_(members), unknown_(std::move(unknown)), elsewhere_(elsewhere) {}

  Finding Find() const {
    const int64_t mismatch = FirstMismatch(members_);
    int64_t number = kNone;
    for (const Member& member : members_) number = std::min(number, member.waits_in);
    if (mismatch <= number) return {0, TellMismatch(mismatch)};
    std::vector<const Member*> late;
    std::vector<int> in, through;
    for (const Member& member : members_) {
      if (member.group->last < number) {
        late.push_back(&member);
      } else {
        (member.waits_in == number ? in : through).push_back(member.rank);
      }
    }
    std::string text = absl::StrCat(Called(number), ": ", RanksText(in),
                                    Either(in.size(), " is", " are"), " in it");
    if (!through.empty()) {
      absl::StrAppend(&text, ", ", RanksText(through), Either(through.size(), " is", " are"),
                      " through it");
    }
    const int order = TellLate(late, text);
    if (!unknown_.empty()) {
      absl::StrAppend(&text, ", of ", RanksText(unknown_), " it is not known");
    }
    if (late.empty() && unknown_.empty()) {
      absl::StrAppend(&text, ", and no rank is missing: it does not come to its end");
    }
    return {order, text};
  }

 private:
  // "all_reduce #513 of group default_pg (float32 [7, 3])".
  std::string Called(int64_t number) const {
    for (const Member& member : members_) {
      const Collective* const called = FindNumber(*member.group, number);
      if (called == nullptr) continue;
      return absl::StrCat(called->operation, " #", number, " of group ", NameOf(*member.group),
                          InputText(*called));
    }
    return absl::StrCat("collective #", number, " of group ", NameOf(*members_.front().group));
  }

  std::string TellMismatch(int64_t number) const {
    std::vector<std::string> parts;
    for (const auto& [call, ranks] : CallsOf(members_, number)) {
      parts.push_back(absl::StrCat(RanksText(ranks), " called ", call));
    }
    return absl::StrCat("collective #", number, " of group ", NameOf(*members_.front().group),
                        " is not the same on all ranks: ", absl::StrJoin(parts, ", "));
  }

  // Adds to the text who has not entered the collective, and what those did last.
  int TellLate(const std::vector<const Member*>& late, std::string& text) const {
    if (late.empty()) return unknown_.empty() ? 3 : 2;
    std::vector<int> ranks;
    const Member* last = late.front();
    for (const Member* member : late) {
      ranks.push_back(member->rank);
      if (member->group->last < last->group->last) last = member;
    }
    absl::StrAppend(&text, ", ", RanksText(ranks), Either(ranks.size(), " has", " have"),
                    " not entered it");
    const Collective* const before = FindNumber(*last->group, last->group->last);
    const std::string whose =
        ranks.size() == 1 ? "its" : absl::StrCat("of rank ", last->rank, " the");
    if (last->group->last == 0) {
      absl::StrAppend(&text, ", nor any before it");
    } else {
      absl::StrAppend(&text, "; ", whose, " last was ",
                      before == nullptr ? "collective" : before->operation, " #",
                      last->group->last);
    }
    const auto others = elsewhere_.find(last->rank);
    if (others == elsewhere_.end()) return 1;
    for (const auto& [group, where] : others->second) {
      if (group == last->group->name) continue;
      absl::StrAppend(&text, ", and it is in ", where);
      return 2;
    }
    return 1;
  }

  const std::vector<Member>& members_;
  const std::vector<int> unknown_;
  const Elsewhere& elsewhere_;
};

bool Knows(const RankReport& rank) { return rank.reported.unavailable.empty(); }

// Returns the members of the group of which nothing is known. Adds to `members` those that have not
// made the group yet, and so have entered none of its collectives.
std::vector<int> TakeOthers(const std::vector<RankReport>& ranks, std::vector<Member>& members) {
  static const GroupCollectives* const kNothing = new GroupCollectives();
  const std::vector<int>& all = members.front().group->ranks;
  std::vector<int> unknown;
  for (const RankReport& rank : ranks) {
    const int number = rank.rank.value();
    const bool is_member = std::find(all.begin(), all.end(), number) != all.end();
    const bool reported = std::any_of(members.begin(), members.end(),
                                      [&](const Member& member) { return member.rank == number; });
    if (reported) continue;
    if (!Knows(rank) && (is_member || all.empty())) unknown.push_back(number);
    if (Knows(rank) && is_member) members.push_back({number, kNothing, kNone});
  }
  return unknown;
}

// "the collectives of rank 2 are not known: its Python did not answer within 3 s".
void TellUnknown(const std::vector<RankReport>& ranks, std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> reasons;
  for (const RankReport& rank : ranks) {
    if (!Knows(rank)) reasons[rank.reported.unavailable].push_back(rank.rank.value());
  }
  for (const auto& [why, which] : reasons) {
    texts.push_back(absl::StrCat("the collectives of ", RanksText(which), " are not known: ", why));
  }
}

// ---- A job.

bool IsWatched(const Job& job) {
  return job.request.command.has_value() && job.request.command->watched;
}

absl::Duration AskInterval(const Job& job) {
  return std::max(kLeastInterval, job.request.timeouts.stall_warning);
}

bool IsAwaited(const Job& job, const RankState& rank) {
  return rank.report.state == TrainerState::kRunning &&
         rank.unreachable_since == absl::InfiniteFuture() &&
         rank.report.collectives.wanted != job.collectives.wanted;
}

void Ask(Job& job, Moment now) {
  JobCollectives& collectives = job.collectives;
  // A number that no earlier controller has used either.
  collectives.wanted = std::max(collectives.wanted + 1, absl::ToUnixMicros(now.wall));
  collectives.asked = now.steady;
  collectives.answered = false;
}

void TakeAnswers(Job& job, Moment now) {
  std::vector<RankReport> ranks;
  int number = 0;
  for (const RankState& rank : job.ranks) {
    RankReport& reported = ranks.emplace_back();
    reported.rank = Rank(number++);
    const TrainerReport& report = rank.report;
    reported.reported = report.collectives;
    const bool exited = report.state == TrainerState::kExited;
    reported.has_failed =
        exited && report.exit.has_value() && report.exit->failure == FailureKind::kCollective;
    // What a rank reported before it ended, or left behind then, is as good as an answer.
    const bool has_reported =
        !reported.reported.groups.empty() || !reported.reported.unavailable.empty();
    if (exited ? !has_reported : reported.reported.wanted != job.collectives.wanted) {
      reported.reported = RankCollectives();
      reported.reported.unavailable =
          exited ? "ended before being asked"
                 : absl::StrCat("node ", rank.slot.node.value(), " has not answered");
    }
  }
  job.collectives.answered = true;
  job.collectives.reported = now.wall;
  job.collectives.findings = FindCollectives(ranks);
}

}  // namespace

std::vector<std::string> FindCollectives(const std::vector<RankReport>& ranks) {
  // By group name, which is the same on all ranks of the group.
  std::map<std::string, std::vector<Member>> groups;
  GroupFinder::Elsewhere elsewhere;
  for (const RankReport& rank : ranks) {
    if (!Knows(rank)) continue;
    for (const GroupCollectives& group : rank.reported.groups) {
      const int64_t waits_in = FirstWaited(group, rank.has_failed);
      groups[group.name].push_back({rank.rank.value(), &group, waits_in});
      if (waits_in == kNone) continue;
      const Collective* const called = FindNumber(group, waits_in);
      elsewhere[rank.rank.value()][group.name] =
          absl::StrCat(called == nullptr ? "collective" : called->operation, " #", waits_in,
                       " of group ", NameOf(group));
    }
  }
  std::vector<Finding> findings;
  for (auto& [name, members] : groups) {
    const bool waits = std::any_of(members.begin(), members.end(),
                                   [](const Member& member) { return member.waits_in != kNone; });
    if (!waits) continue;
    std::vector<int> unknown = TakeOthers(ranks, members);
    findings.push_back(GroupFinder(members, std::move(unknown), elsewhere).Find());
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.order < b.order; });
  std::vector<std::string> texts;
  for (Finding& finding : findings) texts.push_back(std::move(finding.text));
  TellUnknown(ranks, texts);
  return texts;
}

JobChange TellCollectives(Job& job, bool stalled, Moment now) {
  if (!IsWatched(job)) return JobChange::kNone;
  JobCollectives& collectives = job.collectives;
  if (!stalled) {
    if (collectives.wanted == 0) return JobChange::kNone;
    collectives = JobCollectives();
    return JobChange::kState;
  }
  if (collectives.wanted == 0 ||
      (collectives.answered && now.steady >= collectives.asked + AskInterval(job))) {
    Ask(job, now);
    return JobChange::kState;
  }
  if (collectives.answered) return JobChange::kNone;
  const bool waits = std::any_of(job.ranks.begin(), job.ranks.end(),
                                 [&](const RankState& rank) { return IsAwaited(job, rank); });
  if (waits && now.steady < collectives.asked + kAnswerPatience) return JobChange::kNone;
  TakeAnswers(job, now);
  return JobChange::kProgress;
}

absl::Time NextCollectives(const Job& job) {
  const JobCollectives& collectives = job.collectives;
  if (collectives.wanted == 0) return absl::InfiniteFuture();
  return collectives.asked + (collectives.answered ? AskInterval(job) : kAnswerPatience);
}

void AskLastCollectives(Job& job, Moment now) {
  if (IsWatched(job)) Ask(job, now);
}

void TakeLastCollectives(Job& job, Moment now) {
  if (!IsWatched(job) || !job.failure.has_value()) return;
  const bool any = std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankState& rank) {
    return !rank.report.collectives.groups.empty();
  });
  if (!any) return;
  const std::vector<std::string> before = std::exchange(job.collectives.findings, {});
  TakeAnswers(job, now);
  const TrainerExit& exit = job.failure->exit;
  // After an abort, a collective's findings tell less than what was known while it was stuck.
  const bool aborted = exit.failure == FailureKind::kCollective || exit.signal == SIGABRT;
  if (job.collectives.findings.empty()) job.collectives.findings = before;
  if (!aborted || job.collectives.findings.empty()) return;
  const std::string& first = job.collectives.findings.front();
  if (!absl::StrContains(job.reason, first)) absl::StrAppend(&job.reason, "; ", first);
}

}  // namespace paceline
