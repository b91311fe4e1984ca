// Nodes and jobs as the scheduler sees them, for tests: a decision is carried out at once.
#ifndef CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_
#define CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/place_table.h"
#include "controller/core/schedule.h"

namespace paceline {

class SmallCluster {
 public:
  using Labels = std::map<std::string, std::string>;

  struct TestNode {
    int slots = 0;
    int gpus = 0;
    bool open = true;
    Labels labels;
  };

  TestNode& AddNode(const std::string& name, int slots, Labels labels = {}, int gpus = 0) {
    return nodes[NodeName(name)] = {slots, gpus, true, std::move(labels)};
  }

  // A job that waits. Valid as long as the job.
  Job& Submit(const std::string& name, int ranks, int priority = 0,
              const std::string& queue = kDefaultQueue) {
    Job& job = jobs[JobId(name)];
    job.request.id = JobId(name);
    job.request.name = absl::StrCat("name-", name);
    job.request.ranks = ranks;
    job.request.priority = priority;
    job.request.queue = queue;
    job.number = ++number_;
    return job;
  }

  // The same of one that saves checkpoints.
  Job& SubmitSaving(const std::string& name, int ranks, int priority = 0,
                    const std::string& queue = kDefaultQueue) {
    Job& job = Submit(name, ranks, priority, queue);
    job.request.checkpoints.directory = "/checkpoints";
    return job;
  }

  void End(const std::string& name) { jobs.erase(JobId(name)); }

  Job& operator[](const std::string& name) { return jobs.at(JobId(name)); }

  std::vector<NodeSpace> Spaces(Device device) const {
    std::vector<NodeSpace> spaces;
    for (const auto& [name, node] : nodes) {
      NodeSpace& space = spaces.emplace_back();
      space.name = name;
      space.total = device == Device::kCuda ? node.gpus : node.slots;
      space.open = node.open;
      space.labels = &node.labels;
      std::vector<bool> used(space.total);
      for (const auto& [id, job] : jobs) {
        if (job.request.device != device) continue;
        ForEachPlace(job, [&](const Place& place) {
          if (place.node == space.name) used[place.number] = true;
        });
      }
      for (int number = 0; number < space.total; ++number) {
        if (!used[number]) space.free.push_back(number);
      }
    }
    return spaces;
  }

  ScheduleDecision Decide() const {
    ScheduleInput input;
    input.queues = &queues;
    input.spaces = {Spaces(Device::kCpu), Spaces(Device::kCuda)};
    const NodeIndex index = IndexOf(input.spaces[0]);
    input.index = &index;
    for (const auto& [id, job] : jobs) {
      if (job.holds_slots()) input.holding.push_back({&job, Shares(job, index)});
      if (job.state != JobState::kQueued) continue;
      const auto settles = settling.find(id);
      input.waiting.push_back({&job, settles == settling.end() ? "" : "is looked through",
                               settles != settling.end() && settles->second});
    }
    input.reservations = last.reservations;
    return DecideSchedule(std::move(input));
  }

  static std::vector<NodeShare> Shares(const Job& job, const NodeIndex& index) {
    std::vector<NodeShare> shares;
    ForEachPlace(job, [&](const Place& place) { shares.push_back({index.Find(place.node), 1}); });
    return shares;
  }

  // Decides, and lets those that start run.
  const ScheduleDecision& Pass() {
    last = Decide();
    for (const auto& start : last.starts) {
      Job& job = jobs.at(start.job);
      job.state = JobState::kRunning;
      job.generation = Generation(job.generation.value() + 1);
      job.started = absl::UnixEpoch() + absl::Seconds(++clock_);
      for (const Place& place : start.placement.places) job.ranks.emplace_back().place = place;
      for (const Place& place : start.placement.spares) job.spares.emplace_back().place = place;
    }
    return last;
  }

  // A displaced job has saved and stopped.
  void Requeue(const std::string& name) {
    Job& job = jobs.at(JobId(name));
    job.state = JobState::kQueued;
    job.ranks.clear();
    job.spares.clear();
    job.checkpoints.stop_after.reset();
  }

  std::string Started() const {
    std::vector<std::string> names;
    for (const auto& start : last.starts) names.push_back(start.job.value());
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) absl::StrAppend(&text, text.empty() ? "" : " ", name);
    return text;
  }

  // "a0 a1 b0": where its ranks are.
  std::string PlacesOf(const std::string& name) const {
    std::string text;
    ForEachPlace(jobs.at(JobId(name)), [&](const Place& place) {
      absl::StrAppend(&text, text.empty() ? "" : " ", place.node.value(), place.number);
    });
    return text;
  }

  Queues queues = DefaultQueues();
  std::map<NodeName, TestNode> nodes;
  std::map<JobId, Job> jobs;
  std::map<JobId, bool> settling;  // Jobs whose directory is looked through: do they keep places?
  ScheduleDecision last;

 private:
  int64_t number_ = 0;
  int64_t clock_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_
