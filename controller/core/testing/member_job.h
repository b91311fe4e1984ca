// A job of several ranks that recovers, one rank on each of the nodes a, b, c, ..., whose trainers
// are played by the test.
#ifndef CONTROLLER_CORE_TESTING_MEMBER_JOB_H_
#define CONTROLLER_CORE_TESTING_MEMBER_JOB_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/core/membership.h"
#include "controller/core/recovery.h"
#include "controller/core/silence.h"
#include "controller/core/testing/played_job.h"

namespace paceline {

inline JobRequest MemberRequest(int ranks = 4) {
  JobRequest request;
  request.id = JobId("job-1");
  request.name = "digits";
  request.ranks = ranks;
  request.steps = 1000;
  request.recovery.max_failures = 3;
  request.recovery.batch = {32, 1};
  request.timeouts.stall_warning = absl::Seconds(10);
  request.timeouts.hang = absl::Seconds(20);
  request.timeouts.collective = absl::Seconds(30);
  request.timeouts.startup = absl::Seconds(100);
  request.timeouts.give_up = absl::Seconds(600);
  return request;
}

// Free places, named by the test; those taken are gone.
class Places {
 public:
  void Add(const std::string& node, int number = 1) { free_.push_back({NodeName(node), number}); }
  // On a node that the job avoids.
  void AddAvoided(const std::string& node) { avoided_.push_back({NodeName(node), 1}); }
  size_t size() const { return free_.size(); }
  FindPlaces Find() {
    return [this](const Job&, PlaceUse use, int count) {
      std::vector<Place> found;
      const auto take = [&](std::vector<Place>& places) {
        for (; count > 0 && !places.empty(); --count) {
          found.push_back(places.front());
          places.erase(places.begin());
        }
      };
      take(free_);
      if (use == PlaceUse::kRankAnywhere) take(avoided_);
      return found;
    };
  }

 private:
  std::vector<Place> free_;
  std::vector<Place> avoided_;
};

class MemberJob {
 public:
  explicit MemberJob(JobRequest request = MemberRequest()) {
    job = NewJob(std::move(request), 1, At(0));
    std::vector<Place> nodes;
    for (int r = 0; r < job.request.ranks; ++r) {
      nodes.push_back({NodeName(std::string(1, static_cast<char>('a' + r))), 0});
    }
    PlaceJob(job, std::move(nodes), At(0));
    TrainAll(1);
  }

  // As the trainer's node reports it; what is not changed stays as it was told last.
  TrainerReport Last(const TrainerId& id) { return FindTrainer(job, id)->report; }
  JobChange Tell(TrainerReport report, double at) {
    const RankState* trainer = FindTrainer(job, report.id);
    const NodeName node = trainer == nullptr ? NodeName("?") : trainer->place.node;
    if (report.pid == 0) {
      report.pid = 1000 * report.id.generation.value() + report.id.rank.value();
    }
    const JobChange change = ApplyReport(job, node, report, At(at));
    return std::max(change, Advance(at));
  }
  JobChange Advance(double at) { return AdvanceMembership(job, places.Find(), At(at)); }

  void Ready(const TrainerId& id, double at) {
    TrainerReport report = Last(id);
    report.state = TrainerState::kReady;
    report.store_address =
        FindTrainer(job, id)->place.node.value() + ":" + std::to_string(id.generation.value());
    Tell(report, at);
  }
  // It trains in the present generation.
  void Train(const TrainerId& id, double at, int64_t step = 10) {
    TrainerReport report = Last(id);
    report.state = TrainerState::kRunning;
    if (report.store_address.empty()) report.store_address = "x:1";
    report.progress.step = step;
    report.membership = {};
    report.membership.generation = job.generation;
    report.membership.step = step;
    Tell(report, at);
  }
  void TrainAll(double at, int64_t step = 10) {
    const std::vector<RankState> members = job.ranks;
    for (const RankState& member : members) Train(member.report.id, at, step);
  }
  // It has left the generation that it trained in.
  void Wait(const TrainerId& id, double at) {
    WaitAfter(Last(id).membership.generation, id, at, "connection reset");
  }
  void WaitAfter(Generation left, const TrainerId& id, double at, const std::string& error) {
    TrainerReport report = Last(id);
    report.membership.waiting = true;
    report.membership.error = error;
    report.membership.left = left;
    Tell(report, at);
  }
  void End(const TrainerId& id, double at, FailureKind failure = FailureKind::kSignal,
           const std::string& message = "killed by SIGKILL") {
    TrainerReport report = Last(id);
    report.state = TrainerState::kExited;
    report.exit = TrainerExit();
    report.exit->failure = failure;
    report.exit->message = message;
    report.exit->step = report.progress.step;
    Tell(report, at);
  }
  TrainerId Id(int rank) const { return job.ranks[static_cast<size_t>(rank)].report.id; }
  std::string Nodes() const {
    std::string nodes;
    for (const RankState& member : job.ranks) nodes += member.place.node.value();
    return nodes;
  }

  Job job;
  Places places;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_MEMBER_JOB_H_
