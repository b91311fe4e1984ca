#include "controller/page/page_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "controller/page/page_job.h"
#include "controller/wire/convert_telemetry.h"

namespace paceline {
namespace {

using nlohmann::json;

// Jobs that hold slots, then jobs that wait, then ended jobs, each newest first.
std::vector<const Job*> ShownJobs(const Cluster& cluster) {
  std::vector<const Job*> live;
  std::vector<const Job*> ended;
  for (const auto& [id, job] : cluster.jobs()) {
    (job.ended_already() ? ended : live).push_back(&job);
  }
  const auto keep = [](std::vector<const Job*>& jobs, size_t count, const auto& newer) {
    const auto kept = jobs.begin() + std::min(jobs.size(), count);
    std::partial_sort(jobs.begin(), kept, jobs.end(), newer);
    jobs.erase(kept, jobs.end());
  };
  keep(live, kPageJobs, [](const Job* a, const Job* b) {
    return std::pair(a->holds_slots(), a->number) > std::pair(b->holds_slots(), b->number);
  });
  keep(ended, kPageEndedJobs, [](const Job* a, const Job* b) {
    return std::pair(a->ended, a->number) > std::pair(b->ended, b->number);
  });
  live.insert(live.end(), ended.begin(), ended.end());
  return live;
}

// Number of items in each state.
template <typename Items>
json CountStates(const Items& items) {
  json counts = json::object();
  for (const auto& [name, item] : items) {
    json& count = counts[NameOfState(item.state)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  return counts;
}

// Counts of the jobs that are not shown: only states in which some are not.
json CountLeftOut(json counts, const std::vector<const Job*>& shown) {
  for (const Job* job : shown) {
    json& count = counts[NameOfState(job->state)];
    count = count.get<int>() - 1;
  }
  for (auto count = counts.begin(); count != counts.end();) {
    count = *count == 0 ? counts.erase(count) : std::next(count);
  }
  return counts;
}

// What jobs use of a node.
struct NodeUse {
  int cpu = 0;
  int cuda = 0;
  std::vector<std::string> jobs;
};

std::map<NodeName, NodeUse> UsesOf(const Cluster& cluster) {
  std::map<NodeName, NodeUse> uses;
  const auto add = [&](const JobRequest& request, const std::vector<RankState>& trainers) {
    for (const RankState& trainer : trainers) {
      NodeUse& use = uses[trainer.slot.node];
      ++(request.device == Device::kCuda ? use.cuda : use.cpu);
      if (use.jobs.empty() || use.jobs.back() != request.name) use.jobs.push_back(request.name);
    }
  };
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.holds_slots()) continue;
    add(job.request, job.ranks);
    add(job.request, job.spares);
  }
  return uses;
}

// Sums over all jobs and nodes, shown or not.
json DescribeSums(const PageSources& sources, const std::map<NodeName, NodeUse>& uses) {
  int64_t ranks = 0;
  int64_t slow = 0;
  for (const auto& [id, job] : sources.cluster.jobs()) {
    if (job.ended_already()) continue;
    if (job.state == JobState::kRunning) ranks += ShownRanks(job);
    slow += CountSlow(sources.stragglers.Find(id));
  }
  int64_t slots = 0;
  for (const auto& [name, node] : sources.cluster.nodes()) {
    slots += node.facts.slots + static_cast<int64_t>(node.facts.gpus.size());
  }
  int64_t used = 0;
  for (const auto& [name, use] : uses) used += use.cpu + use.cuda;
  return {{"ranks", ranks}, {"slow", slow}, {"slots", slots}, {"slots_used", used}};
}

// Nodes by name. If there are too many, nodes that are not ready are preferred.
json DescribeNodes(const Cluster& cluster, const std::map<NodeName, NodeUse>& uses) {
  std::vector<const Node*> shown;
  for (const auto& [name, node] : cluster.nodes()) shown.push_back(&node);
  if (shown.size() > kPageNodes) {
    std::stable_partition(shown.begin(), shown.end(),
                          [](const Node* node) { return node->state != NodeState::kReady; });
    shown.resize(kPageNodes);
    std::sort(shown.begin(), shown.end(),
              [](const Node* a, const Node* b) { return a->facts.name < b->facts.name; });
  }
  json nodes = json::array();
  for (const Node* node : shown) {
    const auto found = uses.find(node->facts.name);
    const NodeUse use = found == uses.end() ? NodeUse() : found->second;
    nodes.push_back({{"name", node->facts.name.value()},
                     {"state", NameOfState(node->state)},
                     {"reason", node->reason},
                     {"slots", node->facts.slots},
                     {"slots_used", use.cpu},
                     {"gpus", node->facts.gpus.size()},
                     {"gpus_used", use.cuda},
                     {"jobs", use.jobs}});
  }
  return nodes;
}

// A decision or a membership change.
struct Decided {
  absl::Time time;
  const Job* job;
  const MembershipChange* change;
  const RemedyDecision* remedy;
};

json DescribeDecision(const Decided& decided) {
  const std::string& id = decided.job->request.id.value();
  json out = {{"job_name", decided.job->request.name}, {"time", Known(decided.time)}};
  if (decided.remedy != nullptr) {
    const RemedyDecision& remedy = *decided.remedy;
    out["id"] = absl::StrCat(id, "/d", remedy.id);
    out["what"] = DescribeRemedy(remedy);
    out["why"] = remedy.reason;
    out["state"] = Words(NameOf(remedy.state));
    out["outcome"] = remedy.outcome;
    return out;
  }
  const MembershipChange& change = *decided.change;
  const bool done = change.ended != absl::InfinitePast();
  out["id"] = absl::StrCat(id, "/g", change.generation.value());
  out["what"] = change.reason;
  out["why"] = done && change.ranks_before != change.ranks_after
                   ? absl::StrCat(change.ranks_before, " ranks became ", change.ranks_after)
                   : "";
  out["state"] = done ? "done" : "under way";
  out["outcome"] = "";
  return out;
}

// Decisions about stragglers and membership changes of all jobs, newest first.
json DescribeDecisions(const PageSources& sources) {
  std::vector<Decided> all;
  for (const auto& [id, job] : sources.cluster.jobs()) {
    for (const MembershipChange& change : job.recovery.history) {
      all.push_back({change.begun, &job, &change, nullptr});
    }
    const JobStragglers* stragglers = sources.stragglers.Find(id);
    if (stragglers == nullptr) continue;
    for (const RemedyDecision& remedy : stragglers->policy().decisions()) {
      all.push_back({remedy.made, &job, nullptr, &remedy});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Decided& a, const Decided& b) { return a.time > b.time; });
  all.erase(all.begin() + static_cast<ptrdiff_t>(std::min(all.size(), kPageDecisions)), all.end());
  json out = json::array();
  for (const Decided& decided : all) out.push_back(DescribeDecision(decided));
  return out;
}

}  // namespace

json DescribeForPage(const PageSources& sources, absl::Time wall_now) {
  const Cluster& cluster = sources.cluster;
  json out = {{"version", kVersion}, {"time", absl::ToUnixMillis(wall_now) / 1000.0}};
  out["job_counts"] = CountStates(cluster.jobs());
  out["node_counts"] = CountStates(cluster.nodes());
  const std::map<NodeName, NodeUse> uses = UsesOf(cluster);
  out["sums"] = DescribeSums(sources, uses);
  const std::vector<const Job*> shown = ShownJobs(cluster);
  json& jobs = out["jobs"] = json::array();
  for (const Job* job : shown) jobs.push_back(DescribeJobLine(*job, sources, wall_now));
  out["jobs_left_out"] = CountLeftOut(out["job_counts"], shown);
  out["nodes"] = DescribeNodes(cluster, uses);
  out["nodes_left_out"] = cluster.nodes().size() - out["nodes"].size();
  out["decisions"] = DescribeDecisions(sources);
  const Automation& automation = cluster.automation();
  out["automation"] = {
      {"paused", automation.paused}, {"owner", automation.owner}, {"reason", automation.reason}};
  return out;
}

}  // namespace paceline
