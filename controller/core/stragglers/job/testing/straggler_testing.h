// A cluster with a job whose trainers the test plays, step by step; all ranks wait for one another
// at each step.
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
  // Seconds that a rank on the node itself needs for the step.
  using OwnTime = std::function<double(const NodeName& node, int64_t step)>;
  // The times of all ranks in a step, by rank.
  using Row = std::function<std::vector<StepTimes>(const std::vector<RankState>&, int64_t step)>;

  // The nodes n00, n01, ... have this many slots each.
  explicit WatchedJob(const JobRequest& request, int nodes = 10,
                      const StragglerOptions& options = {}, int slots = 1);

  WatchedJob(const WatchedJob&) = delete;
  WatchedJob& operator=(const WatchedJob&) = delete;

  const Job& job() const { return cluster->jobs().at(id); }
  const RemedyPolicy& policy() const { return stragglers->Find(id)->policy(); }
  const RemedyDecision& Last() const { return policy().decisions().back(); }
  std::string NodeOf(int rank) const;

  // Plays synchronous steps of all jobs, which are reported ten at a time.
  void Train(int64_t steps, const OwnTime& own);

  // The same, with all times by rank except the step's number.
  void TrainAs(int64_t steps, const Row& row_of);

  void Tell(const NodeName& node, const TrainerId& trainer, const std::vector<StepTimes>& steps);

  // All nodes report, and trainers go on by one stage.
  void Report();

  void Apply(const Event& event);

  void ApplyAdvice(int64_t advice) { Carry(stragglers->Apply(*cluster, id, advice, "ann", now)); }

  // Carries out what was decided, and stores it.
  void Carry(StragglerActions decided);

  void Wait(absl::Duration duration);

  // Stops the controller and starts it again with what was stored; the job's state may then be
  // changed.
  void Restart(std::optional<JobState> state = std::nullopt);

 private:
  const StragglerOptions options_;

 public:
  const JobId id;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Stragglers> stragglers;
  Moment now{absl::UnixEpoch() + absl::Hours(1), absl::FromUnixSeconds(1700000000)};
  int64_t step = 0;
  bool plays = true;            // Whether trainers report.
  bool stops_at_order = false;  // They stop doing so once something is decided.
  std::string plan_error;       // Why newer plans cannot be prepared.
  std::string no_slipstream;    // Why Slipstream cannot train the model.
  std::map<int64_t, RemedyDecision> stored;
  std::vector<Event> events;  // Those that were decided.

 private:
  void Start(std::vector<Job> jobs, std::vector<Node> nodes);

  void Note(const StragglerActions& decided);

  TrainerReport Play(const NodeName& node, const PlannedTrainer& planned);

  void TakeUpPlan(const Job& job, TrainerReport& report) const;

  std::map<TrainerId, TrainerReport> trainers_;
};

// Healthy steps of 100 ms, plus a bit of noise that depends only on node and step.
double Healthy(const NodeName& node, int64_t step);

// From step `from` on, the node `slow` is slower by the factor.
WatchedJob::OwnTime SlowFrom(const std::string& slow, int64_t from, double factor = 1.5);

// Each rank stalls now and then.
double Stalling(const NodeName& node, int64_t step);

// The orders that the automation has given.
std::vector<const RemedyDecision*> Orders(const WatchedJob& watched);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_TESTING_STRAGGLER_TESTING_H_
