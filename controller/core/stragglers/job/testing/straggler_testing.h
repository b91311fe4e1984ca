// A cluster with a job whose trainers are played, step by step, for tests: all ranks wait for one
// another at each step.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_TESTING_STRAGGLER_TESTING_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_TESTING_STRAGGLER_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

JobRequest WatchedRequest(StragglerMode mode, int ranks = 8);

class WatchedJob {
 public:
  // Seconds of its own that a rank on the node needs for the step.
  using OwnTime = std::function<double(const NodeName& node, int64_t step)>;
  // By rank.
  using Row = std::function<std::vector<StepTimes>(const std::vector<RankState>&, int64_t step)>;

  // So many slots on each node: n00, n01, ...
  explicit WatchedJob(const JobRequest& request, int nodes = 10,
                      const StragglerOptions& options = {}, int slots = 1);

  WatchedJob(const WatchedJob&) = delete;
  WatchedJob& operator=(const WatchedJob&) = delete;

  const Job& job() const { return cluster->jobs().at(id); }
  const RemedyPolicy& policy() const { return stragglers->Find(id)->policy(); }
  const RemedyDecision& Last() const { return policy().decisions().back(); }
  std::string NodeOf(int rank) const;

  // So many synchronous steps of all jobs, told ten at a time, each rank's in one piece.
  void Train(int64_t steps, const OwnTime& own);

  // The same with all times by rank but for the step's number.
  void TrainAs(int64_t steps, const Row& row_of);

  void Tell(const NodeName& node, const TrainerId& trainer, const std::vector<StepTimes>& steps);

  // All nodes report; trainers go on by one stage.
  void Report();

  void Apply(const Event& event);

  void ApplyAdvice(int64_t advice) { Carry(stragglers->Apply(*cluster, id, advice, "ann", now)); }

  // What was decided happens, and is stored.
  void Carry(StragglerActions decided);

  void Wait(absl::Duration duration);

  // The controller goes down and comes up again with what was stored; the job's state may be
  // another one then.
  void Restart(std::optional<JobState> state = std::nullopt);

 private:
  const StragglerOptions options_;

 public:
  const JobId id;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Stragglers> stragglers;
  Moment now{absl::UnixEpoch() + absl::Hours(1), absl::FromUnixSeconds(1700000000)};
  int64_t step = 0;
  bool plays = true;            // Trainers report.
  bool stops_at_order = false;  // They no longer do once something is decided.
  std::string plan_error;       // Newer plans cannot be prepared.
  std::string no_slipstream;    // Slipstream cannot train the model.
  std::map<int64_t, RemedyDecision> stored;
  std::vector<Event> events;  // That were decided.

 private:
  void Start(std::vector<Job> jobs, std::vector<Node> nodes);

  void Note(const StragglerActions& decided);

  TrainerReport Play(const NodeName& node, const PlannedTrainer& planned);

  void TakeUpPlan(const Job& job, TrainerReport& report) const;

  std::map<TrainerId, TrainerReport> trainers_;
};

// Healthy steps of 100 ms, and a bit of noise that depends on node and step only.
double Healthy(const NodeName& node, int64_t step);

// The node is slower by the factor from the step on.
WatchedJob::OwnTime SlowFrom(const std::string& slow, int64_t from, double factor = 1.5);

// Each rank stalls now and then.
double Stalling(const NodeName& node, int64_t step);

// What the automation has ordered.
std::vector<const RemedyDecision*> Orders(const WatchedJob& watched);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_TESTING_STRAGGLER_TESTING_H_
