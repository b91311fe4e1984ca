// The cluster's side of scheduling: the input of a pass (schedule.h), when a pass is needed, and
// what follows from its decision.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/schedule/spaces.h"
#include "controller/core/schedule/why.h"

namespace paceline {
namespace {

NodeMark Mark(const Node& node) { return {IsOpen(node), node.facts.slots, node.facts.gpus.size()}; }

JobMark Mark(const Job& job, std::string settles) {
  JobMark mark;
  mark.state = {job.state, job.generation, IsOnItsWayOut(job), CanBeDisplaced(job),
                KeepsPlaceInQueue(job)};
  ForEachSlot(job, [&](const Slot&) { ++mark.slots; });
  for (const RankState& spare : job.spares) {
    mark.slots = absl::HashOf(mark.slots, spare.slot.node.value(), spare.slot.number);
  }
  mark.missing = MissingRanks(job);
  mark.settles = std::move(settles);
  return mark;
}

}  // namespace

std::optional<Refusal> Cluster::RefuseQueue(const JobRequest& request) const {
  if (options_.queues.count(request.queue) > 0) return std::nullopt;
  const std::string known = absl::StrJoin(
      options_.queues, ", ", [](std::string* out, const auto& queue) { out->append(queue.first); });
  return Refusal{Refusal::Kind::kState, "QUEUE_UNKNOWN",
                 absl::StrCat("there is no queue \"", request.queue, "\": submit to one of ", known,
                              ", or add it to the controller's file of queues (--queues)")};
}

std::optional<Refusal> Cluster::RefusePriority(const JobRequest& request) const {
  const int most = options_.queues.at(request.queue).submitter_priority;
  if (request.priority <= most) return std::nullopt;
  return Refusal{
      Refusal::Kind::kState, "PRIORITY_TOO_HIGH",
      absl::StrCat("priority is ", request.priority, ", and jobs of submitters have at most ", most,
                   " in queue ", request.queue,
                   ": lower it, or ask an operator to submit the job, or for a greater "
                   "submitter_priority of the queue (--queues)")};
}

std::optional<Refusal> Cluster::RefuseOpenJob(const std::string& submitter) const {
  if (options_.open_jobs > 0 && jobs_.live().size() >= options_.open_jobs) {
    return Refusal{
        Refusal::Kind::kLimit, "TOO_MANY_JOBS",
        absl::StrCat("there are ", jobs_.live().size(), " jobs that have not ended, as many as ",
                     "the controller takes: wait, or cancel some")};
  }
  const size_t limit = options_.open_jobs_per_submitter;
  if (limit == 0) return std::nullopt;
  const auto& live = jobs_.live();
  const auto own = std::count_if(live.begin(), live.end(), [&](const auto& entry) {
    return entry.second->submitter == submitter;
  });
  if (static_cast<size_t>(own) < limit) return std::nullopt;
  return Refusal{
      Refusal::Kind::kLimit, "TOO_MANY_OWN_JOBS",
      absl::StrCat(submitter.empty() ? "callers without a name have" : submitter + " has", " ", own,
                   " jobs that have not ended, as many as one submitter may have: wait, or cancel "
                   "some (the controller's --jobs-per-submitter is ",
                   limit, ")")};
}

absl::Status Cluster::CanEverFit(const JobRequest& request) const {
  if (const int least = LeastToStart(request); least < request.ranks) {
    JobRequest fewer = request;
    fewer.ranks = fewer.recovery.min_ranks = least;
    return CanEverFit(fewer);
  }
  const absl::Status fits = paceline::CanEverFit(request, Spaces(request.device));
  if (!fits.ok()) return fits;
  const auto queue = options_.queues.find(request.queue);
  if (queue == options_.queues.end()) return fits;
  const std::optional<int> quota = queue->second.Quota(request.device);
  if (!quota.has_value() || request.ranks <= *quota) return fits;
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", request.ranks, " ", SlotNoun(request.device, request.ranks), " and queue ",
      request.queue, " may hold ", *quota, ": ask for fewer ranks or submit to another queue"));
}

std::optional<int64_t> Cluster::LargestDeviceMemory(const JobRequest& request) const {
  return paceline::LargestDeviceMemory(request, nodes());
}

std::optional<int64_t> Cluster::LargestHostMemory(const JobRequest& request) const {
  return paceline::LargestHostMemory(request, nodes());
}

std::vector<std::string> Cluster::Why(const Job& job, absl::Time now) const {
  return FindObstacles({job, jobs(), nodes(), options_.queues, schedule_, now});
}

std::vector<NodeSpace> Cluster::Spaces(Device device) const {
  std::vector<NodeSpace> spaces = SpacesOf(nodes(), jobs(), device);
  MarkKept(schedule_.reservations, jobs(), device, spaces);
  return spaces;
}

bool Cluster::MustSchedule(const Actions& actions) {
  bool changed = !actions.store_nodes.empty();
  const auto look_at = [&](const NodeName& name, const Node& node) {
    const NodeMark now = Mark(node);
    const auto [before, added] = node_marks_.try_emplace(name, now);
    if (added || std::exchange(before->second, now) != now) changed = true;
  };
  if (node_marks_.size() != nodes().size()) {
    for (const auto& [name, node] : nodes()) look_at(name, node);
  }
  for (const NodeName& name : nodes_.changed()) look_at(name, *nodes_.Find(name));
  const auto look = [&](const JobId& id) {
    const Job* const job = jobs_.Find(id);
    if (job == nullptr || job->ended_already()) {
      if (job_marks_.erase(id) > 0) changed = true;
      return;
    }
    JobMark now = Mark(*job, WaitsForSettlement(*job, AssignmentOf(id)));
    const auto [before, added] = job_marks_.try_emplace(id);
    if (!added && before->second == now) return;
    before->second = std::move(now);
    changed = true;
  };
  for (const JobId& id : actions.show_jobs) look(id);
  // The node that scans a job's directory can change without an event of that job.
  for (const auto& [id, wait] : schedule_.waits) {
    if (wait.kind == Wait::Kind::kSettlement) look(id);
  }
  return changed;
}

ScheduleInput Cluster::MakeScheduleInput() const {
  ScheduleInput input;
  input.queues = &options_.queues;
  input.index = &Index();
  Survey(nodes(), jobs(), input);
  for (const JobId& id : jobs_.queued()) {
    const Job& job = *jobs_.Find(id);
    input.waiting.push_back(
        {&job, WaitsForSettlement(job, AssignmentOf(id)), KeepsPlaceInQueue(job)});
  }
  input.reservations = schedule_.reservations;
  return input;
}

void Cluster::Schedule(Moment now, Actions& actions) {
  for (const NodeName& name : actions.store_nodes) {
    const NodeFacts& facts = nodes_.Find(name)->facts;
    const size_t hash = absl::HashOf(facts.labels, facts.spec_version);
    const auto [known, added] = index_hashes_.try_emplace(name, hash);
    if (added || std::exchange(known->second, hash) != hash) node_index_.reset();
  }
  if (!MustSchedule(actions)) return;
  wanted_.reset();
  // When all workers come back at once, each would cause a pass; there is none while no job waits,
  // nor has or gets more ranks than it asked for.
  const auto has_extra = [](const auto& entry) {
    return WantedRanks(*entry.second) > entry.second->request.ranks;
  };
  const auto& live = jobs_.live();
  if (jobs_.queued().empty() && std::none_of(live.begin(), live.end(), has_extra)) {
    schedule_ = ScheduleDecision();
    return;
  }
  schedule_ = DecideSchedule(MakeScheduleInput());
  FollowElastic(now, actions);
  for (const auto& preemption : schedule_.preemptions) {
    Job& job = *jobs_.Change(preemption.victim);
    const JobRequest& other = jobs_.Find(preemption.beneficiary)->request;
    RequeueWhenSaved(job,
                     absl::StrCat("preempted by job ", other.id.value(), " (", other.name,
                                  ") of a higher priority"),
                     NodeName(), now);
    Note(job, JobChange::kState, actions);
  }
  for (auto& start : schedule_.starts) {
    Job& job = *jobs_.Change(start.job);
    PlaceJob(job, std::move(start.placement.slots), now);
    for (Slot& slot : start.placement.spares) StartSpare(job, std::move(slot), now);
    Note(job, JobChange::kState, actions);
  }
  for (const auto& [id, wait] : schedule_.waits) {
    const Job& known = *jobs_.Find(id);
    std::string reason = known.restart_reason.empty()
                             ? wait.reason
                             : absl::StrCat(known.restart_reason, "; ", wait.reason);
    if (known.reason == reason) continue;
    Job& job = *jobs_.Change(id);
    job.reason = std::move(reason);
    Note(job, JobChange::kProgress, actions);
  }
  schedule_.starts.clear();
  schedule_.preemptions.clear();
  MustSchedule(actions);  // The pass's own changes need no other pass.
}

void Cluster::FollowElastic(Moment now, Actions& actions) {
  std::vector<JobId> elastic;
  for (const auto& [id, job] : jobs_.live()) {
    if (IsElastic(job->request)) elastic.push_back(id);
  }
  // Before any job changes, as it looks at all of them.
  const WantedSlots& wanted = Wanted();
  for (const JobId& id : elastic) {
    Job& job = *jobs_.Change(id);
    const auto found = schedule_.give_backs.find(id);
    const bool gives = found != schedule_.give_backs.end();
    JobChange change = OrderGiveBack(job, gives ? found->second.ranks : 0,
                                     gives ? found->second.beneficiary : "", now);
    if (gives || GrowsAgainstOthers(job, wanted)) change = std::max(change, StopGrowth(job, now));
    Note(job, change, actions);
  }
}

const NodeIndex& Cluster::Index() const {
  if (!node_index_.has_value() || node_index_->size() != static_cast<int>(nodes().size())) {
    node_index_.emplace(IndexOf(nodes()));
  }
  return *node_index_;
}

const WantedSlots& Cluster::Wanted() const {
  const NodeIndex& index = Index();
  if (wanted_.has_value() && wanted_->size == index.size()) return *wanted_;
  WantedSlots& wanted = wanted_.emplace();
  wanted.size = index.size();
  wanted.nodes.assign(2, NodeSet(index.size()));
  const auto nodes_for = [&](const JobRequest& request) -> NodeSet& {
    return wanted.nodes[static_cast<size_t>(request.device)];
  };
  for (const auto& [id, wait] : schedule_.waits) {
    const Job* const job = jobs_.Find(id);
    if (job == nullptr) continue;
    const JobRequest& request = job->request;
    switch (wait.kind) {
      case Wait::Kind::kReservation:
      case Wait::Kind::kBehind:
      case Wait::Kind::kSettlement:
        nodes_for(request).Add(index.Allowed(request.placement, /*with_pool=*/false));
        break;
      case Wait::Kind::kQuota:
        wanted.queues.emplace(request.queue, request.device);
        break;
      case Wait::Kind::kQueueUnknown:
      case Wait::Kind::kSlots:
        break;
    }
  }
  // All jobs, as their indexes must not be read while one changes.
  for (const auto& [id, job] : jobs()) {
    if (MissingRanks(job) == 0) continue;
    const JobRequest& request = job.request;
    if (GrowsWithinQuota(job) && QuotaLeft(request) == 0) {
      wanted.queues.emplace(request.queue, request.device);
      continue;
    }
    NodeSet open = index.Allowed(request.placement, /*with_pool=*/true);
    for (const auto* left : {&job.recovery.vacate, &job.recovery.avoid}) {
      for (const auto& [name, why] : *left) {
        const int n = index.Find(name);
        if (n >= 0) open.Remove(n);
      }
    }
    nodes_for(request).Add(open);
  }
  return wanted;
}

bool Cluster::GrowsAgainstOthers(const Job& job, const WantedSlots& wanted) const {
  if (wanted.HasQueue(job.request)) return true;
  const NodeSet& nodes = wanted.Of(job.request.device);
  for (size_t i = static_cast<size_t>(job.request.spares); i < job.spares.size(); ++i) {
    const int n = Index().Find(job.spares[i].slot.node);
    if (n >= 0 && nodes.Contains(n)) return true;
  }
  return false;
}

int Cluster::QuotaLeft(const JobRequest& request) const {
  const auto queue = options_.queues.find(request.queue);
  if (queue == options_.queues.end()) return 0;
  const std::optional<int> quota = queue->second.Quota(request.device);
  if (!quota.has_value()) return std::numeric_limits<int>::max();
  int held = 0;
  for (const auto& [id, job] : jobs()) {
    if (job.request.queue != request.queue || job.request.device != request.device) continue;
    ForEachSlot(job, [&](const Slot&) { ++held; });
  }
  return std::max(0, *quota - held);
}

std::set<int> Cluster::SlotsUsed(const NodeName& node, Device device) const {
  std::set<int> used;
  for (const auto& [id, job] : jobs_.On(node)) {
    if (job->request.device != device) continue;
    ForEachSlot(*job, [&](const Slot& slot) {
      if (slot.node == node) used.insert(slot.number);
    });
  }
  return used;
}

}  // namespace paceline
