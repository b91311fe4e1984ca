#include "controller/core/place_table.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

bool Tolerates(const PlacementPolicy& policy, absl::string_view taint) {
  return std::any_of(policy.tolerate.begin(), policy.tolerate.end(),
                     [&](const std::string& tolerated) {
                       return tolerated == taint || tolerated == taint.substr(0, taint.find('='));
                     });
}

}  // namespace

PlaceTable::PlaceTable(const std::vector<NodeSpace>& nodes)
    : nodes_(nodes), open_(size()), pool_(size()) {
  std::map<std::pair<absl::string_view, absl::string_view>, int> racks, islands;
  for (int n = 0; n < size(); ++n) {
    const NodeSpace& node = nodes_[n];
    const int free = node.open ? static_cast<int>(node.free.size()) : 0;
    kept_.push_back(std::min(free, node.kept));
    room_.push_back(free - kept_.back());
    used_.push_back(0);
    if (node.open) open_.Add(n);
    const absl::string_view rack = node.rack;
    rack_.push_back(Domain(racks, rack, ""));
    island_.push_back(Domain(islands, rack, Label(n, "island")));
    if (node.labels == nullptr) continue;
    if (Label(n, "pool") == "spare") pool_.Add(n);
    for (auto label = node.labels->lower_bound(kTaintPrefix);
         label != node.labels->end() && absl::StartsWith(label->first, kTaintPrefix); ++label) {
      const auto key = label->first.substr(sizeof(kTaintPrefix) - 1);
      taints_[absl::StrCat(key, "=", label->second)].push_back(n);
    }
  }
  domains_ = static_cast<int>(std::max(racks.size(), islands.size()));
}

int PlaceTable::Domain(std::map<std::pair<absl::string_view, absl::string_view>, int>& domains,
                       absl::string_view rack, absl::string_view island) {
  return domains.try_emplace({rack, island}, static_cast<int>(domains.size())).first->second;
}

int PlaceTable::Find(const NodeName& name) const {
  const auto found =
      std::lower_bound(nodes_.begin(), nodes_.end(), name,
                       [](const NodeSpace& node, const NodeName& n) { return node.name < n; });
  if (found == nodes_.end() || found->name != name) return -1;
  return static_cast<int>(found - nodes_.begin());
}

absl::string_view PlaceTable::Label(int index, const std::string& label) const {
  if (nodes_[index].labels == nullptr) return "";
  const auto found = nodes_[index].labels->find(label);
  return found == nodes_[index].labels->end() ? absl::string_view() : found->second;
}

const std::map<std::string, std::vector<int>>& PlaceTable::Values(const std::string& label) const {
  const auto [values, added] = values_.try_emplace(label);
  if (!added) return values->second;
  for (int n = 0; n < size(); ++n) {
    if (nodes_[n].labels == nullptr) continue;
    const auto found = nodes_[n].labels->find(label);
    if (found != nodes_[n].labels->end()) values->second[found->second].push_back(n);
  }
  return values->second;
}

const std::vector<NodeSet>& PlaceTable::Groups(const std::string& label) {
  const auto [groups, added] = groups_.try_emplace(label);
  if (!added) return groups->second;
  for (const auto& [value, nodes] : Values(label)) {
    NodeSet& group = groups->second.emplace_back(size());
    for (const int n : nodes) group.Add(n);
  }
  return groups->second;
}

std::vector<NodeSet> PlaceTable::Choices(const PlacementPolicy& policy, const NodeSet& nodes) {
  if (policy.same.empty()) return {nodes};
  std::vector<NodeSet> choices;
  for (const NodeSet& group : Groups(policy.same)) {
    choices.push_back(group);
    choices.back().Keep(nodes);
  }
  return choices;
}

NodeSet PlaceTable::Find(const PlacementPolicy& policy) const {
  NodeSet set(size(), /*all=*/policy.nodes.empty());
  for (const NodeName& name : policy.nodes) {
    const int n = Find(name);
    if (n >= 0) set.Add(n);
  }
  for (const NodeName& name : policy.exclude_nodes) {
    const int n = Find(name);
    if (n >= 0) set.Remove(n);
  }
  for (const auto& [label, value] : policy.labels) {
    NodeSet with(size());
    const auto found = Values(label).find(value);
    if (found != Values(label).end()) {
      for (const int n : found->second) with.Add(n);
    }
    set.Keep(with);
  }
  for (const auto& [taint, nodes] : taints_) {
    if (Tolerates(policy, taint)) continue;
    for (const int n : nodes) set.Remove(n);
  }
  return set;
}

const NodeSet& PlaceTable::Allowed(const PlacementPolicy& policy, bool with_pool) {
  const auto known = allowed_.find({policy, with_pool});
  if (known != allowed_.end()) return known->second;
  NodeSet set = Find(policy);
  if (!with_pool) set.Remove(pool_);
  return allowed_.emplace(std::make_pair(policy, with_pool), std::move(set)).first->second;
}

int PlaceTable::Room(const NodeSet& nodes) const {
  int sum = 0;
  nodes.ForEach([&](int n) { sum += room_[n]; });
  return sum;
}

void PlaceTable::Keep(int index, int count) {
  const int kept = std::min(room_[index], std::max(0, count));
  room_[index] -= kept;
  kept_[index] += kept;
}

std::vector<NodeShare> PlaceTable::Pack(const NodeSet& nodes, int count) const {
  std::vector<NodeRoom> rooms;
  nodes.ForEach([&](int n) {
    if (room_[n] > 0) rooms.push_back({n, room_[n], rack_[n], island_[n]});
  });
  return paceline::Pack(std::move(rooms), count, domains_);
}

std::vector<Place> PlaceTable::Take(const std::vector<NodeShare>& shares) {
  std::vector<Place> places;
  for (const NodeShare& share : shares) {
    for (int i = 0; i < share.count; ++i) places.push_back(TakeOne(share.node));
  }
  return places;
}

Place PlaceTable::TakeOne(int index) {
  --(room_[index] > 0 ? room_[index] : kept_[index]);
  const NodeSpace& node = nodes_[index];
  return {node.name, node.free[used_[index]++], node.rack};
}

}  // namespace paceline
