// A job of several ranks that recovers, with one rank on each of the nodes a, b, c, ...; the test
// plays its trainers.
#ifndef CONTROLLER_CORE_TESTING_MEMBER_JOB_H_
#define CONTROLLER_CORE_TESTING_MEMBER_JOB_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/unreachable.h"
#include "controller/core/testing/played_job.h"

namespace paceline {

JobRequest MemberRequest(int ranks = 4);

// Free slots, named by the test; taken ones are removed.
class FreeSlots {
 public:
  void Add(const std::string& node, int number = 1) { Add(Slot{NodeName(node), number}); }
  void Add(Slot slot) { free_.push_back(std::move(slot)); }
  // Adds a slot on a node that the job avoids.
  void AddAvoided(const std::string& node) { avoided_.push_back({NodeName(node), 1}); }
  // The kind of domain that a replica has to be in; without, any nodes.
  void Require(Span domain) { domain_ = domain; }
  size_t size() const { return free_.size(); }
  FindSlots Find();

 private:
  // Removes what was offered and is now a trainer's.
  void RemoveTaken(const Job& job);
  // The nearest ones; if no nodes are given, as many near each other, or none.
  std::vector<Slot> FindNear(const Job& job, int count, const ReplicaHome& home);

  std::vector<Slot> free_;
  // Those of free_ that were found for replicas or extra ranks, taken or not.
  std::vector<Slot> offered_;
  Span domain_ = Span::kAnywhere;
  std::vector<Slot> avoided_;
};

class MemberJob {
 public:
  explicit MemberJob(const JobRequest& request = MemberRequest());
  // The ranks are at these slots.
  MemberJob(JobRequest request, std::vector<Slot> ranks);

  // The trainer's last report; change it and pass it to Tell.
  TrainerReport Last(const TrainerId& id) { return FindTrainer(job, id)->report; }
  JobChange Tell(TrainerReport report, double at);
  JobChange Advance(double at) { return AdvanceMembership(job, slots.Find(), At(at)); }

  void Ready(const TrainerId& id, double at);
  // A spare that is not ready yet makes a step by itself.
  void Rehearse(const TrainerId& id, double at);
  // The trainer trains in the present generation.
  void Train(const TrainerId& id, double at, int64_t step = 10);
  void TrainAll(double at, int64_t step = 10);
  // The trainer has left the generation that it trained in.
  void Wait(const TrainerId& id, double at);
  void WaitAfter(Generation left, const TrainerId& id, double at, const std::string& error);
  void End(const TrainerId& id, double at, FailureKind failure = FailureKind::kSignal,
           const std::string& message = "killed by SIGKILL");
  TrainerId Id(int rank) const { return job.ranks[static_cast<size_t>(rank)].report.id; }
  std::string Nodes() const;

  Job job;
  FreeSlots slots;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_MEMBER_JOB_H_
