#include "controller/core/schedule/why.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/hang.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/rank_blocks.h"
#include "controller/core/schedule/slot_table.h"
#include "controller/core/schedule/spaces.h"

namespace paceline {
namespace {

std::string NameOf(const Job& job) {
  return absl::StrCat("job ", job.request.id.value(), " (", job.request.name, ")");
}

int CountSlots(const Job& job) {
  int count = 0;
  ForEachSlot(job, [&](const Slot&) { ++count; });
  return count;
}

// Nodes that share a description.
struct Group {
  int slots = 0;
  std::vector<std::string> names;
};

class Explanation {
 public:
  explicit Explanation(const WhyInput& input)
      : in_(input), job_(input.job), index_(IndexOf(input.nodes)) {}

  std::vector<std::string> Find() {
    if (job_.state == JobState::kQueued) {
      ExplainWait();
    } else if (job_.ended_already()) {
      Say("It has ended: ", job_.reason);
    } else {
      ExplainWhatIsMissing();
    }
    if (const std::string trouble = SaveTrouble(job_, in_.now); !trouble.empty()) {
      Say(trouble);
    }
    return std::move(obstacles_);
  }

 private:
  template <typename... Parts>
  void Say(const Parts&... parts) {
    obstacles_.push_back(absl::StrCat(parts..., "."));
  }

  std::string Count(int count) const {
    return absl::StrCat(count, " ", SlotNoun(job_.request.device, count));
  }

  int Total(const Node& node) const {
    return job_.request.device == Device::kCuda ? static_cast<int>(node.facts.gpus.size())
                                                : node.facts.slots;
  }

  void ExplainWait() {
    const auto found = in_.schedule.waits.find(job_.request.id);
    if (found == in_.schedule.waits.end()) return;
    const Wait& wait = found->second;
    switch (wait.kind) {
      case Wait::Kind::kQueueUnknown:
        Say("The controller has no queue ", job_.request.queue,
            " any more: add it to the file of --queues, or cancel the job");
        break;
      case Wait::Kind::kSettlement:
        Say("It ", wait.reason);
        break;
      case Wait::Kind::kQuota:
        ExplainQuota();
        break;
      case Wait::Kind::kReservation:
        ExplainSlots();
        ExplainReservation();
        break;
      case Wait::Kind::kSlots:
        ExplainSlots();
        break;
      case Wait::Kind::kBehind: {
        const Job& ahead = in_.jobs.at(*wait.behind);
        Say("It waits behind ", NameOf(ahead), ", which is ahead of it and has ",
            Count(LeastToStart(ahead.request)), " reserved");
        ExplainSlots();
        break;
      }
    }
    if (!job_.restart_reason.empty()) Say("It was queued again: ", job_.restart_reason);
  }

  void ExplainQuota() {
    const int least = LeastToStart(job_.request);
    const JobRequest& request = job_.request;
    std::vector<std::string> holders;
    int held = 0;
    for (const auto& [id, other] : in_.jobs) {
      if (other.request.queue != request.queue || other.request.device != request.device) continue;
      const int count = CountSlots(other);
      if (count > 0) holders.push_back(absl::StrCat(NameOf(other), ": ", count));
      held += count;
    }
    const int quota = *in_.queues.at(request.queue).Quota(request.device);
    Say("Its queue ", request.queue, " may hold ", Count(quota), ", and ", held, " are held",
        holders.empty() ? "" : absl::StrCat(" (", ListNames(holders), ")"), "; it needs ", least);
    if (held + least <= quota) Say("The rest is kept for jobs of the queue ahead of it");
  }

  void ExplainSlots() {
    const NodeSet& allowed = index_.Allowed(job_.request.placement, /*with_pool=*/false);
    const NodeSet old = NodesOfOldRelease(job_.request, index_, /*with_pool=*/false);
    const std::string cannot = DescribeOldRelease(job_.request);
    const std::vector<NodeSpace> spaces = SpacesOf(in_.nodes, in_.jobs, job_.request.device);
    int free = 0;
    int held = 0;
    int fit = 0;
    const RankBlocks blocks = SlotTable(spaces, index_).BlocksOf(job_.request);
    BlockCount whole(index_, blocks);
    std::map<std::string, Group> closed, refused;
    int n = 0;
    for (const auto& [name, node] : in_.nodes) {
      const NodeSpace& space = spaces[static_cast<size_t>(n)];
      if (!allowed.Contains(n)) {
        Add(refused[old.Contains(n) ? cannot : WhyRefused(n, name, node)], name, space.total);
      } else if (!space.open) {
        Add(closed[WhyClosed(node)], name, space.total);
      } else {
        free += static_cast<int>(space.free.size());
        const int blocks_here = blocks.Fit(static_cast<int>(space.free.size()));
        fit += blocks_here;
        whole.Add(n, blocks_here);
        held += space.total - static_cast<int>(space.free.size());
      }
      ++n;
    }
    const std::string& same = job_.request.placement.same;
    const int least = LeastToStart(job_.request);
    Say("It needs ", Count(least),
        least < job_.request.ranks ? absl::StrCat(", and wants ", job_.request.ranks) : "",
        same.empty() ? "" : absl::StrCat(" on nodes with the same label ", same), ": ", free,
        " are free and ", held, " held by jobs, of those that it may use");
    if (blocks.one_per_node) {
      Say("It needs ", blocks.count, blocks.count == 1 ? " node" : " nodes", " with ",
          Count(blocks.size), " free: there ", fit == 1 ? "is " : "are ", fit);
    }
    if (blocks.bound()) {
      Say("The ", job_.request.shards, " ranks of a replica have to be ", DescribeSpan(blocks.span),
          " (placement.replica: require): there is room for ", whole.total() / blocks.per_replica,
          " of ", blocks.replicas(), blocks.replicas() == 1 ? " replica" : " replicas");
    }
    Tell(closed);
    Tell(refused);
  }

  // Of a job that waits for slots of lost ranks, which may have to be near the others.
  void ExplainHomes() {
    const Span span = WidestDomain(job_);
    if (span == Span::kAnywhere) return;
    std::map<int, std::set<std::string>> homes;  // By replica: the nodes of those that are left.
    std::set<int> broken;
    for (size_t r = 0; r < job_.ranks.size(); ++r) {
      const RankState& member = job_.ranks[r];
      const int replica = static_cast<int>(r) / job_.request.shards;
      if (IsLost(member)) {
        broken.insert(replica);
      } else {
        homes[replica].insert(member.slot.node.value());
      }
    }
    for (const int replica : broken) {
      const std::set<std::string>& nodes = homes[replica];
      if (nodes.empty()) continue;
      Say("The new ranks of replica ", replica, " have to be ", DescribeSpan(span),
          " with its others, which are on ",
          ListNames(std::vector<std::string>(nodes.begin(), nodes.end())),
          " (placement.replica: require)");
    }
  }

  // Of a job that waits for slots of lost ranks or spares, or has room for more. They may come to
  // the pool, too.
  void ExplainReleases() {
    const NodeSet old = NodesOfOldRelease(job_.request, index_, /*with_pool=*/true);
    const std::string cannot = DescribeOldRelease(job_.request);
    std::map<std::string, Group> refused;
    int n = 0;
    for (const auto& [name, node] : in_.nodes) {
      if (old.Contains(n++)) Add(refused[cannot], name, Total(node));
    }
    Tell(refused);
  }

  static void Add(Group& group, const NodeName& name, int slots) {
    group.slots += slots;
    if (slots > 0) group.names.push_back(name.value());
  }

  void Tell(const std::map<std::string, Group>& groups) {
    for (const auto& [why, group] : groups) {
      if (group.slots > 0)
        Say(Count(group.slots), group.slots == 1 ? " is" : " are", " on nodes that ", why, " (",
            ListNames(group.names), ")");
    }
  }

  // Of a node that not only a worker of an earlier release keeps the job away from.
  std::string WhyRefused(int n, const NodeName& name, const Node& node) const {
    const PlacementPolicy& policy = job_.request.placement;
    const auto has = [&](const std::vector<NodeName>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!policy.nodes.empty() && !has(policy.nodes)) return "its placement.nodes do not name";
    if (has(policy.exclude_nodes)) return "its placement.exclude_nodes name";
    for (const auto& [label, value] : policy.labels) {
      if (index_.Label(n, label) == value) continue;
      if (label == kObjectsLabel) {
        return "read no objects of stores (--object-store of their workers)";
      }
      return absl::StrCat("lack the label ", label, "=", value);
    }
    if (index_.pool().Contains(n)) return "are kept for spares (pool=spare)";
    for (const auto& [label, value] : node.facts.labels) {
      if (absl::StartsWith(label, kTaintPrefix)) {
        return absl::StrCat("have the taint ", label.substr(sizeof(kTaintPrefix) - 1), "=", value);
      }
    }
    return "its placement does not allow";
  }

  void ExplainReservation() {
    const auto reservation =
        std::find_if(in_.schedule.reservations.begin(), in_.schedule.reservations.end(),
                     [&](const Reservation& r) { return r.job == job_.request.id; });
    if (reservation == in_.schedule.reservations.end()) return;
    std::vector<std::string> nodes;
    for (const auto& [node, kept] : reservation->kept) {
      nodes.push_back(absl::StrCat(kept, " on ", node.value()));
    }
    std::vector<std::string> holders, leaving, lasting;
    for (const auto& [id, other] : in_.jobs) {
      if (other.request.device != job_.request.device || !HoldsReserved(other, *reservation)) {
        continue;
      }
      (IsOnItsWayOut(other) ? leaving : holders).push_back(NameOf(other));
      const bool lower =
          PriorityOf(other.request, in_.queues) < PriorityOf(job_.request, in_.queues);
      if (lower && !IsOnItsWayOut(other) && !CanBeDisplaced(other))
        lasting.push_back(NameOf(other));
    }
    Say("Reserved for it are ", ListNames(nodes));
    if (!leaving.empty()) Say("Room is made there by ", ListNames(leaving), ", which save or stop");
    if (!holders.empty()) Say("There it waits for the end of ", ListNames(holders));
    if (!lasting.empty()) {
      Say("Of a lower priority, but not displaced since they save no checkpoints now: ",
          ListNames(lasting));
    }
  }

  static bool HoldsReserved(const Job& job, const Reservation& reservation) {
    bool holds = false;
    ForEachSlot(job, [&](const Slot& slot) { holds |= reservation.kept.count(slot.node) > 0; });
    return holds;
  }

  // Of an elastic job: why it has more ranks than it wants, or what becomes of that.
  void ExplainExtra(int ranks) {
    const JobRecovery& recovery = job_.recovery;
    const int wanted = job_.request.ranks;
    if (ranks > wanted) {
      Say("It trains with ", ranks, " ranks, ", ranks - wanted, " more than the ", wanted,
          " that it wants, since nobody else used their slots; it gives them back when others "
          "wait");
    }
    if (recovery.give_back_to > 0) {
      Say("It goes down to ", recovery.give_back_to,
          " ranks, as soon as no save or other change "
          "is under way: ",
          recovery.give_back_for, " waits for slots");
    } else if (recovery.growth_to > ranks) {
      Say("It grows to ", recovery.growth_to, " ranks: trainers start in slots that were idle");
    } else if (recovery.idle_since != absl::InfiniteFuture()) {
      Say("There are slots for more ranks; it grows into them, up to ", MostRanks(job_.request),
          ", when they have been idle for long enough to make up for the pause");
    }
  }

  void ExplainWhatIsMissing() {
    const auto& stop = job_.checkpoints.stop_after;
    if (job_.state == JobState::kStopping) {
      Say("It stops: ", job_.reason);
    } else if (stop.has_value()) {
      Say("It saves a checkpoint, and is then ", stop->requeue ? "queued again" : "stopped", ": ",
          stop->reason);
    }
    if (job_.state == JobState::kRecovering) {
      Say("Its ranks change: ", job_.reason);
      ExplainHomes();
    }
    if (job_.state == JobState::kStarting) {
      const std::string late = DescribeStart(job_, in_.now);
      Say("Its trainers start", late.empty() ? "" : "; ", late);
    }
    const int ranks = static_cast<int>(job_.ranks.size());
    const int spares = static_cast<int>(job_.spares.size());
    if (ranks < job_.request.ranks) {
      Say("It trains with ", ranks, " of its ", job_.request.ranks,
          IsElastic(job_.request)
              ? " ranks; the others start when there are slots that are not kept for waiting jobs"
              : " ranks; the others return when slots are free");
    }
    if (IsElastic(job_.request)) ExplainExtra(ranks);
    if (job_.state == JobState::kRecovering || ranks < MostRanks(job_.request) ||
        spares < job_.request.spares) {
      ExplainReleases();
    }
    const int missing = job_.request.spares - spares;
    if (missing > 0 && job_.state != JobState::kStopping) {
      SlotWish wish{SlotWish::Use::kSpare, {}, {}};
      for (const RankState& rank : job_.ranks) wish.ranks.push_back(rank.slot);
      std::vector<NodeSpace> spaces = SpacesOf(in_.nodes, in_.jobs, job_.request.device);
      MarkKept(in_.schedule.reservations, in_.jobs, job_.request.device, spaces);
      const std::string why = PlaceOne(job_.request, spaces, wish).reason;
      Say(missing, " of its ", job_.request.spares, missing == 1 ? " spares is" : " spares are",
          " missing", why.empty() ? "" : ": ", why);
    }
  }

  const WhyInput& in_;
  const Job& job_;
  const NodeIndex index_;
  std::vector<std::string> obstacles_;
};

}  // namespace

std::vector<std::string> FindObstacles(const WhyInput& input) { return Explanation(input).Find(); }

}  // namespace paceline
