// Nodes and jobs as the scheduler sees them, for tests; decisions are carried out at once.
#ifndef CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_
#define CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/schedule/schedule.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {

class SmallCluster {
 public:
  using Labels = std::map<std::string, std::string>;

  struct TestNode {
    int slots = 0;
    int gpus = 0;
    bool open = true;
    Labels labels;
    int spec_version = 0;
  };

  TestNode& AddNode(const std::string& name, int slots, Labels labels = {}, int gpus = 0);

  // Adds a waiting job. Valid as long as the job.
  Job& Submit(const std::string& name, int ranks, int priority = 0,
              const std::string& queue = kDefaultQueue);

  // The same for a job that saves checkpoints.
  Job& SubmitSaving(const std::string& name, int ranks, int priority = 0,
                    const std::string& queue = kDefaultQueue);

  // The same for one whose number of ranks follows the room, each with its own batch.
  Job& SubmitElastic(const std::string& name, int min_ranks, int ranks, int max_ranks,
                     int priority = 0, const std::string& queue = kDefaultQueue);

  void End(const std::string& name) { jobs.erase(JobId(name)); }

  Job& operator[](const std::string& name) { return jobs.at(JobId(name)); }

  std::vector<NodeSpace> Spaces(Device device) const;

  ScheduleDecision Decide() const;

  static std::vector<NodeShare> Shares(const Job& job, const NodeIndex& index);

  // Decides, and lets the jobs that start run.
  const ScheduleDecision& Pass();

  // Says that a displaced job has saved and stopped.
  void Requeue(const std::string& name);

  std::string Started() const;

  // "a0 a1 b0": where the job's ranks are.
  std::string SlotsOf(const std::string& name) const;

  Queues queues = DefaultQueues();
  std::map<NodeName, TestNode> nodes;
  std::map<JobId, Job> jobs;
  std::map<JobId, bool> settling;  // Jobs whose directory is scanned; true: they keep slots.
  ScheduleDecision last;

 private:
  int64_t number_ = 0;
  int64_t clock_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_SMALL_CLUSTER_H_
