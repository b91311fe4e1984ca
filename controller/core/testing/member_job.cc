#include "controller/core/testing/member_job.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/unreachable.h"

namespace paceline {
namespace {

bool IsSame(const Slot& a, const Slot& b) { return a.node == b.node && a.number == b.number; }

std::vector<Slot> EachOnItsNode(int ranks) {
  std::vector<Slot> slots;
  for (int r = 0; r < ranks; ++r) {
    slots.push_back({NodeName(std::string(1, static_cast<char>('a' + r))), 0});
  }
  return slots;
}

}  // namespace

JobRequest MemberRequest(int ranks) {
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

void FreeSlots::RemoveTaken(const Job& job) {
  for (const Slot& slot : std::exchange(offered_, {})) {
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [&](const Slot& other) { return IsSame(other, slot); });
    const std::vector<const RankState*> trainers = TrainersOf(job);
    const bool is_taken =
        std::any_of(trainers.begin(), trainers.end(),
                    [&](const RankState* trainer) { return IsSame(trainer->slot, slot); });
    if (is_taken && found != free_.end()) free_.erase(found);
  }
}

std::vector<Slot> FreeSlots::FindNear(const Job& job, int count, const ReplicaHome& home) {
  std::vector<Slot> left;
  for (const Slot& slot : free_) {
    const bool is_found = std::any_of(home.taken.begin(), home.taken.end(),
                                      [&](const Slot& other) { return IsSame(other, slot); });
    if (!is_found) left.push_back(slot);
  }
  std::vector<Slot> others;
  for (const RankState* trainer : TrainersOf(job)) {
    const bool is_there = std::count(home.nodes.begin(), home.nodes.end(), trainer->slot.node) > 0;
    if (is_there) others.push_back(trainer->slot);
  }
  std::vector<Slot> found;
  for (const size_t i : ChooseNear(left, others, domain_, count)) found.push_back(left[i]);
  if (home.nodes.empty() && static_cast<int>(found.size()) < count) found.clear();
  offered_.insert(offered_.end(), found.begin(), found.end());
  return found;
}

FindSlots FreeSlots::Find() {
  return [this](const Job& job, SlotUse use, int count, const ReplicaHome* home) {
    RemoveTaken(job);
    if (home != nullptr) return FindNear(job, count, *home);
    std::vector<Slot> found;
    if (use == SlotUse::kExtra || use == SlotUse::kIdle) {  // They may only be counted.
      const auto most = std::min(static_cast<int64_t>(count), static_cast<int64_t>(free_.size()));
      found.assign(free_.begin(), free_.begin() + most);
      offered_.insert(offered_.end(), found.begin(), found.end());
      return found;
    }
    const auto take = [&](std::vector<Slot>& slots) {
      for (; count > 0 && !slots.empty(); --count) {
        found.push_back(slots.front());
        slots.erase(slots.begin());
      }
    };
    take(free_);
    if (use == SlotUse::kRankAnywhere) take(avoided_);
    return found;
  };
}

MemberJob::MemberJob(JobRequest request, std::vector<Slot> ranks) {
  job = NewJob(std::move(request), 1, At(0));
  PlaceJob(job, std::move(ranks), At(0));
  TrainAll(1);
}

MemberJob::MemberJob(const JobRequest& request)
    : MemberJob(request, EachOnItsNode(request.ranks)) {}

JobChange MemberJob::Tell(TrainerReport report, double at) {
  const RankState* trainer = FindTrainer(job, report.id);
  const NodeName node = trainer == nullptr ? NodeName("?") : trainer->slot.node;
  if (report.pid == 0) {
    report.pid = 1000 * report.id.generation.value() + report.id.rank.value();
  }
  const JobChange change = ApplyReport(job, node, report, At(at));
  return std::max(change, Advance(at));
}

void MemberJob::Ready(const TrainerId& id, double at) {
  TrainerReport report = Last(id);
  report.state = TrainerState::kReady;
  report.membership.can_hand_over = true;
  report.membership.can_keep_copies = true;
  report.membership.can_average_first = true;
  report.store_address =
      FindTrainer(job, id)->slot.node.value() + ":" + std::to_string(id.generation.value());
  Tell(report, at);
}

void MemberJob::Rehearse(const TrainerId& id, double at) {
  TrainerReport report = Last(id);
  report.progress.phase = 2;  // Forward.
  Tell(report, at);
}

void MemberJob::Train(const TrainerId& id, double at, int64_t step) {
  TrainerReport report = Last(id);
  report.state = TrainerState::kRunning;
  if (report.store_address.empty()) report.store_address = "x:1";
  report.progress.step = step;
  report.membership = {};
  report.membership.generation = job.generation;
  report.membership.step = step;
  report.membership.can_hand_over = true;
  report.membership.can_keep_copies = true;
  report.membership.can_average_first = true;
  Tell(report, at);
}

void MemberJob::TrainAll(double at, int64_t step) {
  const std::vector<RankState> members = job.ranks;
  for (const RankState& member : members) Train(member.report.id, at, step);
}

void MemberJob::Wait(const TrainerId& id, double at) {
  WaitAfter(Last(id).membership.generation, id, at, "connection reset");
}

void MemberJob::WaitAfter(Generation left, const TrainerId& id, double at,
                          const std::string& error) {
  TrainerReport report = Last(id);
  report.membership.waiting = true;
  report.membership.error = error;
  report.membership.left = left;
  Tell(report, at);
}

void MemberJob::End(const TrainerId& id, double at, FailureKind failure,
                    const std::string& message) {
  TrainerReport report = Last(id);
  report.state = TrainerState::kExited;
  report.exit = TrainerExit();
  report.exit->failure = failure;
  report.exit->message = message;
  report.exit->step = report.progress.step;
  report.exit->phase = report.progress.phase;
  Tell(report, at);
}

std::string MemberJob::Nodes() const {
  std::string nodes;
  for (const RankState& member : job.ranks) nodes += member.slot.node.value();
  return nodes;
}

}  // namespace paceline
