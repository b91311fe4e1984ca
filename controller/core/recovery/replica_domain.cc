#include "controller/core/recovery/replica_domain.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/core/lanes.h"

namespace paceline {
namespace {

Span SpanBetween(const Slot& a, const Slot& b) {
  if (a.node == b.node) return Span::kNode;
  if (a.rack != b.rack) return Span::kAnywhere;
  return a.island == b.island ? Span::kIsland : Span::kRack;
}

// Indices of the slots by domain of this kind, the largest group first.
std::vector<std::vector<size_t>> GroupByDomain(const std::vector<Slot>& slots, Span kind) {
  std::map<DomainKey, std::vector<size_t>> by_domain;
  for (size_t i = 0; i < slots.size(); ++i) by_domain[KeyOf(kind, slots[i])].push_back(i);
  std::vector<std::vector<size_t>> groups;
  groups.reserve(by_domain.size());
  for (auto& [key, group] : by_domain) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return groups;
}

// Those of the narrowest domain that has so many, else the most of one of the kind `widest`.
std::vector<size_t> ChooseTogether(const std::vector<Slot>& slots, Span widest, size_t count) {
  for (const Span kind : {Span::kNode, Span::kIsland, Span::kRack}) {
    if (kind >= widest) break;
    std::vector<std::vector<size_t>> groups = GroupByDomain(slots, kind);
    if (!groups.empty() && groups.front().size() >= count) return std::move(groups.front());
  }
  std::vector<std::vector<size_t>> groups = GroupByDomain(slots, widest);
  return groups.empty() ? std::vector<size_t>() : std::move(groups.front());
}

}  // namespace

Span SpanTo(const std::vector<Slot>& others, const Slot& slot) {
  Span span = Span::kAnywhere;
  for (const Slot& other : others) span = std::min(span, SpanBetween(other, slot));
  return span;
}

Span DomainOfReplica(const Job& job, int replica) {
  const Lanes lanes{job.request.shards};
  const auto first =
      std::lower_bound(job.ranks.begin(), job.ranks.end(), lanes.RankOf(replica, 0),
                       [](const RankState& member, int seat) { return member.seat < seat; });
  Span span = Span::kNode;
  for (auto member = first; member != job.ranks.end() && lanes.ReplicaOf(member->seat) == replica;
       ++member) {
    span = std::max(span, SpanBetween(first->slot, member->slot));
  }
  return std::min(span, Span::kRack);
}

Span WidestDomain(const Job& job) {
  const Lanes lanes{job.request.shards};
  const bool is_required = job.request.placement.replica == ReplicaPlacement::kRequire;
  if (lanes.shards == 1 || !is_required) return Span::kAnywhere;
  Span widest = Span::kNode;
  for (size_t r = 0; r < job.ranks.size(); r += static_cast<size_t>(lanes.shards)) {
    widest = std::max(widest, DomainOfReplica(job, lanes.ReplicaOf(job.ranks[r].seat)));
  }
  return widest;
}

std::vector<StretchedReplica> FindStretched(const Job& job) {
  std::vector<StretchedReplica> stretched;
  const Lanes lanes{job.request.shards};
  if (lanes.shards == 1) return stretched;
  for (size_t r = 0; r < job.ranks.size(); r += static_cast<size_t>(lanes.shards)) {
    StretchedReplica one;
    one.replica = lanes.ReplicaOf(job.ranks[r].seat);
    const auto first = static_cast<size_t>(lanes.RankOf(one.replica, 0));
    std::map<DomainKey, int> domains;  // Ranks in each.
    for (size_t position = 0; position < static_cast<size_t>(lanes.shards); ++position) {
      one.home = std::max(one.home, SpanBetween(job.homes[first], job.homes[first + position]));
    }
    if (one.home == Span::kAnywhere) continue;
    for (size_t position = 0; position < static_cast<size_t>(lanes.shards); ++position) {
      ++domains[KeyOf(one.home, job.ranks[r + position].slot)];
    }
    if (domains.size() == 1) continue;
    const auto most =
        std::max_element(domains.begin(), domains.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (size_t position = 0; position < static_cast<size_t>(lanes.shards); ++position) {
      const RankState& member = job.ranks[r + position];
      if (KeyOf(one.home, member.slot) == most->first) {
        one.inside.push_back(member.slot);
      } else {
        one.outside.push_back(member.seat);
      }
    }
    stretched.push_back(std::move(one));
  }
  return stretched;
}

std::vector<StretchedReplica> FindMending(const Job& job) {
  std::vector<StretchedReplica> mending;
  if (job.recovery.mending.empty() || !job.recovery.vacate.empty()) return mending;
  for (StretchedReplica& one : FindStretched(job)) {
    if (job.recovery.mending.count(one.replica) > 0) mending.push_back(std::move(one));
  }
  return mending;
}

DomainKey KeyOf(Span kind, const Slot& slot) {
  switch (kind) {
    case Span::kNode:
      return {slot.node.value(), ""};
    case Span::kIsland:
      return {slot.rack, slot.island};
    case Span::kRack:
      return {slot.rack, ""};
    case Span::kAnywhere:
      break;
  }
  return {};
}

std::string DescribeDomain(Span kind, const Slot& slot) {
  const std::string& node = slot.node.value();
  switch (kind) {
    case Span::kNode:
      return absl::StrCat("on node ", node);
    case Span::kIsland:
      return slot.island.empty() ? absl::StrCat("in the island of node ", node)
                                 : absl::StrCat("in island ", slot.island);
    case Span::kRack:
      return slot.rack.empty() ? absl::StrCat("in the rack of node ", node)
                               : absl::StrCat("in rack ", slot.rack);
    case Span::kAnywhere:
      break;
  }
  return DescribeSpan(kind);
}

std::vector<NodeName> NodesOf(const std::vector<Slot>& slots) {
  std::set<NodeName> nodes;
  for (const Slot& slot : slots) nodes.insert(slot.node);
  return {nodes.begin(), nodes.end()};
}

std::vector<size_t> ChooseNear(const std::vector<Slot>& slots, const std::vector<Slot>& others,
                               Span widest, int count) {
  const size_t most = static_cast<size_t>(count);
  std::vector<size_t> chosen;
  if (others.empty()) {
    chosen = ChooseTogether(slots, widest, most);
  } else {
    std::vector<std::pair<Span, size_t>> order;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Span span = SpanTo(others, slots[i]);
      if (span <= widest) order.emplace_back(span, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [span, i] : order) chosen.push_back(i);
  }
  if (chosen.size() > most) chosen.resize(most);
  return chosen;
}

std::optional<NewHome> FindNewHome(const std::vector<Slot>& idle, int count, Span widest,
                                   const FindHere& find) {
  for (const std::vector<size_t>& group : GroupByDomain(idle, widest)) {
    std::vector<Slot> there;
    there.reserve(group.size());
    for (const size_t i : group) there.push_back(idle[i]);
    NewHome home;
    std::vector<Slot> used;
    for (const size_t i : ChooseNear(there, {}, widest, count)) {
      home.idle.push_back(group[i]);
      used.push_back(there[i]);
    }
    const size_t missing = static_cast<size_t>(count) - used.size();
    if (missing > 0) home.slots = find(static_cast<int>(missing), NodesOf(used));
    if (home.slots.size() == missing) return home;
  }
  NewHome home;
  home.slots = find(count, {});
  if (home.slots.size() < static_cast<size_t>(count)) return std::nullopt;
  return home;
}

}  // namespace paceline
