#include "controller/core/schedule/node_index.h"

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

NodeIndex::NodeIndex(std::vector<NodeTraits> nodes) : nodes_(std::move(nodes)), pool_(size()) {
  using Domain = std::pair<absl::string_view, absl::string_view>;
  absl::flat_hash_map<Domain, int> racks, islands;
  const auto number = [](absl::flat_hash_map<Domain, int>& domains, const Domain& domain) {
    return domains.try_emplace(domain, static_cast<int>(domains.size())).first->second;
  };
  index_.reserve(nodes_.size());
  for (int n = 0; n < size(); ++n) {
    index_.emplace(nodes_[n].name->value(), n);
    const absl::string_view rack = Label(n, "rack");
    rack_.push_back(number(racks, {rack, ""}));
    island_.push_back(number(islands, {rack, Label(n, "island")}));
    racks_.resize(racks.size());
    rack_names_.resize(racks.size(), std::string(rack));
    racks_[rack_.back()].push_back(n);
    island_racks_.resize(islands.size(), rack_.back());
    island_names_.resize(islands.size(), std::string(Label(n, "island")));
    if (nodes_[n].labels == nullptr) continue;
    if (Label(n, "pool") == "spare") pool_.Add(n);
    for (auto label = nodes_[n].labels->lower_bound(kTaintPrefix);
         label != nodes_[n].labels->end() && absl::StartsWith(label->first, kTaintPrefix);
         ++label) {
      const auto key = label->first.substr(sizeof(kTaintPrefix) - 1);
      taints_.try_emplace(absl::StrCat(key, "=", label->second), size()).first->second.Add(n);
    }
  }
}

int NodeIndex::Find(const NodeName& name) const {
  const auto found = index_.find(name.value());
  return found == index_.end() ? -1 : found->second;
}

int NodeIndex::DomainOf(Span span, int node) const {
  switch (span) {
    case Span::kNode:
      return node;
    case Span::kIsland:
      return island_[node];
    case Span::kRack:
      return rack_[node];
    case Span::kAnywhere:
      break;
  }
  return 0;
}

int NodeIndex::CountDomains(Span span) const {
  switch (span) {
    case Span::kNode:
      return size();
    case Span::kIsland:
      return static_cast<int>(island_racks_.size());
    case Span::kRack:
      return static_cast<int>(racks_.size());
    case Span::kAnywhere:
      break;
  }
  return 1;
}

Span NodeIndex::SpanOf(int a, int b) const {
  for (const Span span : {Span::kNode, Span::kIsland, Span::kRack}) {
    if (DomainOf(span, a) == DomainOf(span, b)) return span;
  }
  return Span::kAnywhere;
}

absl::string_view NodeIndex::Label(int node, const std::string& label) const {
  if (nodes_[node].labels == nullptr) return "";
  const auto found = nodes_[node].labels->find(label);
  return found == nodes_[node].labels->end() ? absl::string_view() : found->second;
}

const std::map<std::string, std::vector<int>>& NodeIndex::Values(const std::string& label) const {
  const auto [values, added] = values_.try_emplace(label);
  if (!added) return values->second;
  for (int n = 0; n < size(); ++n) {
    if (nodes_[n].labels == nullptr) continue;
    const auto found = nodes_[n].labels->find(label);
    if (found != nodes_[n].labels->end()) values->second[found->second].push_back(n);
  }
  return values->second;
}

const std::vector<int>& NodeIndex::Groups(const std::string& label) const {
  const auto [groups, added] = groups_.try_emplace(label, nodes_.size(), -1);
  if (!added) return groups->second;
  int number = 0;
  for (const auto& [value, nodes] : Values(label)) {
    for (const int n : nodes) groups->second[n] = number;
    ++number;
  }
  return groups->second;
}

std::vector<NodeSet> NodeIndex::Choices(const PlacementPolicy& policy, const NodeSet& nodes) const {
  if (policy.same.empty()) return {nodes};
  const std::vector<int>& groups = Groups(policy.same);
  std::map<int, NodeSet> choices;
  nodes.ForEach([&](int n) {
    if (groups[n] >= 0) choices.try_emplace(groups[n], size()).first->second.Add(n);
  });
  std::vector<NodeSet> sets;
  for (auto& [group, set] : choices) sets.push_back(std::move(set));
  return sets;
}

const NodeSet& NodeIndex::With(const std::string& label, const std::string& value) const {
  const auto [with, added] = with_.try_emplace({label, value}, size());
  if (!added) return with->second;
  const auto found = Values(label).find(value);
  if (found != Values(label).end()) {
    for (const int n : found->second) with->second.Add(n);
  }
  return with->second;
}

NodeSet NodeIndex::Select(const PlacementPolicy& policy) const {
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
    set.Keep(With(label, value));
  }
  if (policy.needs.version > 0) {
    for (int n = 0; n < size(); ++n) {
      if (nodes_[n].spec_version < policy.needs.version) set.Remove(n);
    }
  }
  for (const auto& [taint, nodes] : taints_) {
    if (!Tolerates(policy, taint)) set.Remove(nodes);
  }
  return set;
}

const NodeSet& NodeIndex::Allowed(const PlacementPolicy& policy, bool with_pool) const {
  // The policy is copied only for an answer that is new: there is a call for each job of a pass.
  absl::node_hash_map<PlacementPolicy, NodeSet>& answers = allowed_[with_pool ? 1 : 0];
  const auto known = answers.find(policy);
  if (known != answers.end()) return known->second;
  NodeSet set = Select(policy);
  if (!with_pool) set.Remove(pool_);
  return answers.emplace(policy, std::move(set)).first->second;
}

}  // namespace paceline
