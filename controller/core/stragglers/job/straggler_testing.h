// A cluster with a job whose trainers are played, step by step, for tests: all ranks wait for one
// another at each step.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_TESTING_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/cluster.h"
#include "controller/core/membership.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

inline JobRequest WatchedRequest(StragglerMode mode, int ranks = 8) {
  JobRequest request;
  request.id = JobId("job-1");
  request.name = "watched";
  request.ranks = ranks;
  request.steps = 100000;
  request.recovery.max_failures = 3;
  request.recovery.batch = {32, 1};
  request.spares = 1;
  request.stragglers = mode;
  return request;
}

class WatchedJob {
 public:
  // Seconds of its own that a rank on the node needs for the step.
  using OwnTime = std::function<double(const NodeName& node, int64_t step)>;
  // By rank.
  using Row = std::function<std::vector<StepTimes>(const std::vector<RankState>&, int64_t step)>;

  // So many slots on each node: n00, n01, ...
  explicit WatchedJob(const JobRequest& request, int nodes = 10,
                      const StragglerOptions& options = {}, int slots = 1)
      : options_(options), id(request.id) {
    Start({}, {});
    for (int n = 0; n < nodes; ++n) {
      NodeFacts facts;
      facts.name = NodeName(absl::StrCat("n", n / 10, n % 10));
      facts.uid = facts.name.value();
      facts.slots = slots;
      Apply(NodeConnected{facts, {}});
    }
    Apply(JobSubmitted{request});
    for (int i = 0; i < 5; ++i) Report();
  }

  WatchedJob(const WatchedJob&) = delete;
  WatchedJob& operator=(const WatchedJob&) = delete;

  const Job& job() const { return cluster->jobs().at(id); }
  const RemedyPolicy& policy() const { return stragglers->Find(id)->policy(); }
  const RemedyDecision& Last() const { return policy().decisions().back(); }
  std::string NodeOf(int rank) const {
    return job().ranks[static_cast<size_t>(rank)].place.node.value();
  }

  // So many synchronous steps of all jobs, told ten at a time, each rank's in one piece.
  void Train(int64_t steps, const OwnTime& own) {
    TrainAs(steps, [&](const std::vector<RankState>& ranks, int64_t s) {
      double longest = 0;
      for (const RankState& rank : ranks) longest = std::max(longest, own(rank.place.node, s));
      std::vector<StepTimes> row;
      for (const RankState& rank : ranks) {
        const double seconds = own(rank.place.node, s);
        StepTimes times;
        times.forward_s = seconds / 3;
        times.backward_s = 2 * seconds / 3;
        times.communication_s = longest - seconds + 0.001;
        times.total_s = longest + 0.001;
        row.push_back(times);
      }
      return row;
    });
  }

  // The same with all times by rank but for the step's number.
  void TrainAs(int64_t steps, const Row& row_of) {
    for (int64_t begin = 0; begin < steps; begin += 10) {
      std::vector<std::vector<RankState>> jobs;
      for (const auto& [id, job] : cluster->jobs()) jobs.push_back(job.ranks);
      std::map<TrainerId, std::vector<StepTimes>> told;
      for (int i = 0; i < 10; ++i, ++step) {
        double longest = 0;
        for (const std::vector<RankState>& ranks : jobs) {
          std::vector<StepTimes> row = row_of(ranks, step);
          for (size_t r = 0; r < ranks.size(); ++r) {
            row[r].step = step;
            longest = std::max(longest, row[r].total_s);
            told[ranks[r].report.id].push_back(row[r]);
          }
        }
        Wait(absl::Seconds(longest));
      }
      for (const std::vector<RankState>& ranks : jobs) {
        for (const RankState& rank : ranks) {
          Tell(rank.place.node, rank.report.id, told[rank.report.id]);
        }
      }
      Report();
    }
  }

  void Tell(const NodeName& node, const TrainerId& trainer, const std::vector<StepTimes>& steps) {
    Carry(stragglers->TakeSteps(*cluster, node, trainer, steps, now));
  }

  // All nodes report; trainers go on by one stage.
  void Report() {
    std::vector<NodeName> names;
    for (const auto& [name, node] : cluster->nodes()) names.push_back(name);
    for (const NodeName& name : names) {
      std::vector<TrainerReport> reports;
      for (const PlannedTrainer& planned : cluster->PlanFor(name)) {
        if (plays) reports.push_back(Play(name, planned));
      }
      Apply(NodeReported{name, reports});
    }
  }

  void Apply(const Event& event) {
    const Actions actions = cluster->Step(event, now);
    Carry(stragglers->Follow(*cluster, actions, now));
  }

  void ApplyAdvice(int64_t advice) { Carry(stragglers->Apply(*cluster, id, advice, "ann", now)); }

  // What was decided happens, and is stored.
  void Carry(StragglerActions decided) {
    Note(decided);
    const auto follow = [this](const Actions& stepped) {
      StragglerActions next = stragglers->Follow(*cluster, stepped, now);
      Note(next);
      return next;
    };
    Actions actions;
    CarryOut(*cluster, follow, now, actions, decided);
    for (const auto& [job_id, number] : decided.store) {
      stored[number] = *stragglers->Find(job_id)->policy().Find(number);
    }
    for (const auto& [job_id, number] : decided.forget) stored.erase(number);
  }

  void Wait(absl::Duration duration) {
    now.steady += duration;
    now.wall += duration;
    if (stragglers->NextDeadline() <= now.steady) Carry(stragglers->Tick(*cluster, now));
  }

  // The controller goes down and comes up again with what was stored; the job's state may be
  // another one then.
  void Restart(std::optional<JobState> state = std::nullopt) {
    std::vector<Job> jobs = {job()};
    jobs.front().state = state.value_or(jobs.front().state);
    std::vector<Node> nodes;
    for (const auto& [name, node] : cluster->nodes()) nodes.push_back(node);
    Start(std::move(jobs), nodes);
    for (const Node& node : nodes) {
      std::vector<TrainerReport> reports;
      for (const PlannedTrainer& planned : cluster->PlanFor(node.facts.name)) {
        reports.push_back(Play(node.facts.name, planned));
      }
      Apply(NodeConnected{node.facts, reports});
    }
  }

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
  std::map<int64_t, RemedyDecision> stored;
  std::vector<Event> events;  // That were decided.

 private:
  void Start(std::vector<Job> jobs, std::vector<Node> nodes) {
    cluster = std::make_unique<Cluster>(Cluster::Options());
    stragglers = std::make_unique<Stragglers>(
        options_, [](const std::string&, const Ladder& ladder) { return DescribeLadder(ladder); },
        [](const std::string& asked, const std::optional<SlipstreamChoice>& choice) {
          return choice.has_value() ? DescribeStrategy(choice) : asked;
        });
    cluster->Restore(std::move(jobs), std::move(nodes), now);
    std::vector<RemedyDecision> decisions;
    for (const auto& [number, decision] : stored) decisions.push_back(decision);
    if (decisions.empty()) return;
    Carry(stragglers->Restore({{id, std::move(decisions)}}, *cluster, now));
  }

  void Note(const StragglerActions& decided) {
    events.insert(events.end(), decided.events.begin(), decided.events.end());
    if (!decided.events.empty() && stops_at_order) plays = false;
  }

  TrainerReport Play(const NodeName& node, const PlannedTrainer& planned) {
    TrainerReport& report = trainers_[planned.id];
    const Generation before = report.membership.generation;
    report.id = planned.id;
    report.pid = 1;
    report.progress.step = step;
    const Membership& membership = planned.membership;
    if (planned.stop_grace.has_value()) {
      report.state = TrainerState::kExited;
      report.exit = TrainerExit();
    } else if (report.store_address.empty()) {
      report.state = TrainerState::kReady;
      report.store_address = absl::StrCat(node.value(), ":1");
    } else if (membership.rank.value() >= 0 && before < membership.generation &&
               membership.planned && report.membership.ready < membership.generation) {
      report.membership.ready = membership.generation;
    } else if (membership.rank.value() >= 0 && !planned.store_address.empty()) {
      report.state = TrainerState::kRunning;
      report.membership.generation = membership.generation;
      report.membership.step = step;
      TakeUpPlan(*planned.job, report);
    }
    return report;
  }

  void TakeUpPlan(const Job& job, TrainerReport& report) const {
    if (!plan_error.empty() && report.plan.active.value() > 0 &&
        report.plan.active < job.plan.epoch) {
      report.plan.failed = job.plan.epoch;
      report.plan.error = plan_error;
      return;
    }
    report.plan.prepared = report.plan.active = job.plan.epoch;
    report.plan.active_since_step = step;
  }

  std::map<TrainerId, TrainerReport> trainers_;
};

// Healthy steps of 100 ms, and a bit of noise that depends on node and step only.
inline double Healthy(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(7919 * step + 31 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(3);
  return 0.1 * (1 + 0.01 * (static_cast<double>(random() % 2001) / 1000 - 1));
}

// The node is slower by the factor from the step on.
inline WatchedJob::OwnTime SlowFrom(const std::string& slow, int64_t from, double factor = 1.5) {
  return [=](const NodeName& node, int64_t step) {
    return Healthy(node, step) * (node.value() == slow && step >= from ? factor : 1);
  };
}

// Each rank stalls now and then.
inline double Stalling(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(104729 * step + 17 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(5);
  return Healthy(node, step) + (random() % 100 < 2 ? 1.0 : 0.0);
}

// What the automation has ordered.
inline std::vector<const RemedyDecision*> Orders(const WatchedJob& watched) {
  std::vector<const RemedyDecision*> orders;
  for (const RemedyDecision& decision : watched.policy().decisions()) {
    if (decision.automatic) orders.push_back(&decision);
  }
  return orders;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_TESTING_H_
