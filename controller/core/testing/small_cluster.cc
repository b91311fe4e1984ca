#include "controller/core/testing/small_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

SmallCluster::TestNode& SmallCluster::AddNode(const std::string& name, int slots, Labels labels,
                                              int gpus) {
  return nodes[NodeName(name)] = {slots, gpus, true, std::move(labels)};
}

Job& SmallCluster::Submit(const std::string& name, int ranks, int priority,
                          const std::string& queue) {
  Job& job = jobs[JobId(name)];
  job.request.id = JobId(name);
  job.request.name = absl::StrCat("name-", name);
  job.request.ranks = ranks;
  job.request.priority = priority;
  job.request.queue = queue;
  job.number = ++number_;
  return job;
}

Job& SmallCluster::SubmitSaving(const std::string& name, int ranks, int priority,
                                const std::string& queue) {
  Job& job = Submit(name, ranks, priority, queue);
  job.request.checkpoints.directory = "/checkpoints";
  return job;
}

Job& SmallCluster::SubmitElastic(const std::string& name, int min_ranks, int ranks, int max_ranks,
                                 int priority, const std::string& queue) {
  Job& job = SubmitSaving(name, ranks, priority, queue);
  job.request.recovery.max_failures = 1;
  job.request.recovery.min_ranks = min_ranks;
  job.request.recovery.max_ranks = max_ranks;
  job.request.recovery.rule = BatchRule::kKeepRank;
  return job;
}

std::vector<NodeSpace> SmallCluster::Spaces(Device device) const {
  std::vector<NodeSpace> spaces;
  for (const auto& [name, node] : nodes) {
    NodeSpace& space = spaces.emplace_back();
    space.name = name;
    space.total = device == Device::kCuda ? node.gpus : node.slots;
    space.open = node.open;
    space.labels = &node.labels;
    space.spec_version = node.spec_version;
    std::vector<bool> used(space.total);
    for (const auto& [id, job] : jobs) {
      if (job.request.device != device) continue;
      ForEachSlot(job, [&](const Slot& slot) {
        if (slot.node == space.name) used[slot.number] = true;
      });
    }
    for (int number = 0; number < space.total; ++number) {
      if (!used[number]) space.free.push_back(number);
    }
  }
  return spaces;
}

ScheduleDecision SmallCluster::Decide() const {
  ScheduleInput input;
  input.queues = &queues;
  input.spaces = {Spaces(Device::kCpu), Spaces(Device::kCuda)};
  const NodeIndex index = IndexOf(input.spaces[0]);
  input.index = &index;
  for (const auto& [id, job] : jobs) {
    if (job.holds_slots()) input.holding.push_back({&job, Shares(job, index)});
    if (job.state != JobState::kQueued) continue;
    const auto settles = settling.find(id);
    input.waiting.push_back({&job, settles == settling.end() ? "" : "is scanned",
                             settles != settling.end() && settles->second});
  }
  input.reservations = last.reservations;
  return DecideSchedule(std::move(input));
}

std::vector<NodeShare> SmallCluster::Shares(const Job& job, const NodeIndex& index) {
  std::vector<NodeShare> shares;
  ForEachSlot(job, [&](const Slot& slot) { shares.push_back({index.Find(slot.node), 1}); });
  return shares;
}

const ScheduleDecision& SmallCluster::Pass() {
  last = Decide();
  for (const auto& start : last.starts) {
    Job& job = jobs.at(start.job);
    job.state = JobState::kRunning;
    job.generation = Generation(job.generation.value() + 1);
    job.started = absl::UnixEpoch() + absl::Seconds(++clock_);
    for (const Slot& slot : start.placement.slots) job.ranks.emplace_back().slot = slot;
    for (const Slot& slot : start.placement.spares) job.spares.emplace_back().slot = slot;
  }
  return last;
}

void SmallCluster::Requeue(const std::string& name) {
  Job& job = jobs.at(JobId(name));
  job.state = JobState::kQueued;
  job.ranks.clear();
  job.spares.clear();
  job.checkpoints.stop_after.reset();
}

std::string SmallCluster::Started() const {
  std::vector<std::string> names;
  for (const auto& start : last.starts) names.push_back(start.job.value());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, text.empty() ? "" : " ", name);
  return text;
}

std::string SmallCluster::SlotsOf(const std::string& name) const {
  std::string text;
  ForEachSlot(jobs.at(JobId(name)), [&](const Slot& slot) {
    absl::StrAppend(&text, text.empty() ? "" : " ", slot.node.value(), slot.number);
  });
  return text;
}

}  // namespace paceline
