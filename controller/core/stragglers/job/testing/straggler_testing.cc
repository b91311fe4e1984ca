#include "controller/core/stragglers/job/testing/straggler_testing.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/membership.h"

namespace paceline {

JobRequest WatchedRequest(StragglerMode mode, int ranks) {
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

WatchedJob::WatchedJob(const JobRequest& request, int nodes, const StragglerOptions& options,
                       int slots)
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

std::string WatchedJob::NodeOf(int rank) const {
  return job().ranks[static_cast<size_t>(rank)].slot.node.value();
}

void WatchedJob::Train(int64_t steps, const OwnTime& own) {
  TrainAs(steps, [&](const std::vector<RankState>& ranks, int64_t s) {
    double longest = 0;
    for (const RankState& rank : ranks) longest = std::max(longest, own(rank.slot.node, s));
    std::vector<StepTimes> row;
    for (const RankState& rank : ranks) {
      const double seconds = own(rank.slot.node, s);
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

void WatchedJob::TrainAs(int64_t steps, const Row& row_of) {
  for (int64_t begin = 0; begin < steps; begin += 10) {
    std::vector<std::vector<RankState>> jobs;
    for (const auto& [id, job] : cluster->jobs()) jobs.push_back(job.ranks);
    std::map<TrainerId, std::vector<StepTimes>> reported;
    for (int i = 0; i < 10; ++i, ++step) {
      double longest = 0;
      for (const std::vector<RankState>& ranks : jobs) {
        std::vector<StepTimes> row = row_of(ranks, step);
        for (size_t r = 0; r < ranks.size(); ++r) {
          row[r].step = step;
          longest = std::max(longest, row[r].total_s);
          reported[ranks[r].report.id].push_back(row[r]);
        }
      }
      Wait(absl::Seconds(longest));
    }
    for (const std::vector<RankState>& ranks : jobs) {
      for (const RankState& rank : ranks) {
        Tell(rank.slot.node, rank.report.id, reported[rank.report.id]);
      }
    }
    Report();
  }
}

void WatchedJob::Tell(const NodeName& node, const TrainerId& trainer,
                      const std::vector<StepTimes>& steps) {
  Carry(stragglers->TakeSteps(*cluster, node, trainer, steps, now));
}

void WatchedJob::Report() {
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

void WatchedJob::Apply(const Event& event) {
  const Actions actions = cluster->Step(event, now);
  Carry(stragglers->Follow(*cluster, actions, now));
}

void WatchedJob::Carry(StragglerActions decided) {
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

void WatchedJob::Wait(absl::Duration duration) {
  now.steady += duration;
  now.wall += duration;
  if (stragglers->NextDeadline() <= now.steady) Carry(stragglers->Tick(*cluster, now));
}

void WatchedJob::Restart(std::optional<JobState> state) {
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

void WatchedJob::Start(std::vector<Job> jobs, std::vector<Node> nodes) {
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

void WatchedJob::Note(const StragglerActions& decided) {
  events.insert(events.end(), decided.events.begin(), decided.events.end());
  if (!decided.events.empty() && stops_at_order) plays = false;
}

TrainerReport WatchedJob::Play(const NodeName& node, const PlannedTrainer& planned) {
  TrainerReport& report = trainers_[planned.id];
  report.no_slipstream = no_slipstream;
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
  } else if (membership.rank.value() >= 0 && before < membership.generation && membership.planned &&
             report.membership.ready < membership.generation) {
    report.membership.ready = membership.generation;
  } else if (membership.rank.value() >= 0 && !planned.store_address.empty()) {
    report.state = TrainerState::kRunning;
    report.membership.generation = membership.generation;
    report.membership.step = step;
    TakeUpPlan(*planned.job, report);
  }
  return report;
}

void WatchedJob::TakeUpPlan(const Job& job, TrainerReport& report) const {
  if (!plan_error.empty() && report.plan.active.value() > 0 &&
      report.plan.active < job.plan.version) {
    report.plan.failed = job.plan.version;
    report.plan.error = plan_error;
    return;
  }
  report.plan.prepared = report.plan.active = job.plan.version;
  report.plan.active_since_step = step;
}

double Healthy(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(7919 * step + 31 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(3);
  return 0.1 * (1 + 0.01 * (static_cast<double>(random() % 2001) / 1000 - 1));
}

WatchedJob::OwnTime SlowFrom(const std::string& slow, int64_t from, double factor) {
  return [=](const NodeName& node, int64_t step) {
    return Healthy(node, step) * (node.value() == slow && step >= from ? factor : 1);
  };
}

double Stalling(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(104729 * step + 17 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(5);
  return Healthy(node, step) + (random() % 100 < 2 ? 1.0 : 0.0);
}

std::vector<const RemedyDecision*> Orders(const WatchedJob& watched) {
  std::vector<const RemedyDecision*> orders;
  for (const RemedyDecision& decision : watched.policy().decisions()) {
    if (decision.automatic) orders.push_back(&decision);
  }
  return orders;
}

}  // namespace paceline
