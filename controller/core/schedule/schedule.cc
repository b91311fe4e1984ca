#include "controller/core/schedule/schedule.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/schedule/reserve.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {
namespace {

// State of the pass for one kind of device.
struct DevicePass {
  DevicePass(const std::vector<NodeSpace>& nodes, const NodeIndex& index)
      : table(nodes, index), coming(nodes.size()), reserved(table.size()) {}

  SlotTable table;
  std::vector<int> coming;  // By node: slots of jobs that are about to leave.
  NodeSet reserved;         // Nodes on which slots are kept.
  std::vector<std::pair<NodeSet, JobId>> keepers;  // The jobs for which they are kept.
  std::vector<HeldSlots> held;
  // By set of allowed nodes, `same` and shards: room for blocks of ranks when it was last looked
  // for; it only shrinks.
  std::map<std::tuple<const NodeSet*, std::string, int>, int> room;
  // By set of allowed nodes and shards: what is free, at a version of the table.
  std::map<std::pair<const NodeSet*, int>, std::pair<int64_t, std::string>> shortages;
};

class Pass {
 public:
  explicit Pass(ScheduleInput input) : input_(std::move(input)) {
    for (const auto& nodes : input_.spaces) devices_.emplace_back(nodes, *input_.index);
    CountHeld();
  }

  ScheduleDecision Run() {
    std::vector<std::pair<std::tuple<int, int, int64_t>, const WaitingJob*>> order;
    for (const WaitingJob& waiting : input_.waiting) {
      const auto [queue, job] = PriorityOf(waiting.job->request, *input_.queues);
      order.push_back({{-queue, -job, waiting.job->number}, &waiting});
    }
    std::sort(order.begin(), order.end());
    for (const auto& [key, waiting] : order) Decide(*waiting);
    return std::move(decision_);
  }

 private:
  DevicePass& Of(const JobRequest& job) { return devices_[static_cast<int>(job.device)]; }

  void CountHeld() {
    for (HeldSlots& holding : input_.holding) {
      const JobRequest& job = holding.job->request;
      for (const NodeShare& share : holding.shares) Used(job) += share.count;
      DevicePass& device = Of(job);
      HeldSlots& held = device.held.emplace_back(std::move(holding));
      held.priority = PriorityOf(job, *input_.queues);
      if (IsOnItsWayOut(*held.job)) LetGo(held, device);
    }
  }

  static void LetGo(HeldSlots& held, DevicePass& device) {
    held.leaves = true;
    for (const NodeShare& share : held.shares) device.coming[share.node] += share.count;
  }

  // Slots that jobs of the queue hold, or wait for ahead of the jobs still to be decided.
  int& Used(const JobRequest& job) { return used_[job.queue][static_cast<int>(job.device)]; }

  void Decide(const WaitingJob& waiting) {
    const JobRequest& job = waiting.job->request;
    const auto queue = input_.queues->find(job.queue);
    if (queue == input_.queues->end()) {
      return Keep(job, Wait::Kind::kQueueUnknown,
                  absl::StrCat("waits for its queue ", job.queue,
                               ", which the controller does not know (--queues)"));
    }
    if (!waiting.settles.empty() && !waiting.keeps_slots) {
      return Keep(job, Wait::Kind::kSettlement, waiting.settles);
    }
    const int used = Used(job);
    const std::optional<int> quota = queue->second.Quota(job.device);
    Used(job) += job.ranks;
    if (quota.has_value() && used + job.ranks > *quota) {
      return Keep(job, waiting.settles.empty() ? Wait::Kind::kQuota : Wait::Kind::kSettlement,
                  waiting.settles.empty()
                      ? absl::StrCat("waits for ", job.ranks, " ", SlotNoun(job.device, job.ranks),
                                     " of queue ", job.queue, ": ", used, " of its ", *quota,
                                     " are held or promised")
                      : waiting.settles);
    }
    DevicePass& device = Of(job);
    std::vector<Slot> slots = TryToPlace(job, device);
    if (slots.empty()) return Reserve(waiting, device);
    if (!waiting.settles.empty()) {
      NoteKeeper(device, NodesOf(slots, device.table), job.id);
      return Keep(job, Wait::Kind::kSettlement, waiting.settles);
    }
    int spares = job.spares;
    if (quota.has_value()) spares = std::min(spares, *quota - used - job.ranks);
    Placement placement;
    placement.spares = PlaceSpares(job, slots, spares, device.table);
    placement.slots = std::move(slots);
    Used(job) += static_cast<int>(placement.spares.size());
    decision_.starts.push_back({job.id, std::move(placement)});
  }

  // Empty: there is no room. Quick for most jobs without room.
  std::vector<Slot> TryToPlace(const JobRequest& job, DevicePass& device) const {
    const NodeSet& allowed = input_.index->Allowed(job.placement, /*with_pool=*/false);
    const auto [room, first] =
        device.room.try_emplace({&allowed, job.placement.same, job.shards}, 0);
    if (!first && room->second < RankBlocks(job).count) return {};
    const SlotTable::Packed packed = device.table.Pack(job);
    room->second = packed.room;
    return device.table.Take(packed.shares);
  }

  static NodeSet NodesOf(const std::vector<Slot>& slots, const SlotTable& table) {
    NodeSet nodes(table.size());
    for (const Slot& slot : slots) nodes.Add(table.index().Find(slot.node));
    return nodes;
  }

  static void NoteKeeper(DevicePass& device, NodeSet nodes, const JobId& job) {
    device.reserved.Add(nodes);
    device.keepers.emplace_back(std::move(nodes), job);
  }

  void Keep(const JobRequest& job, Wait::Kind kind, std::string reason,
            std::optional<JobId> behind = std::nullopt) {
    decision_.waits[job.id] = {kind, std::move(reason), std::move(behind)};
  }

  std::string NameOf(const JobId& id) const {
    const auto found =
        std::find_if(input_.waiting.begin(), input_.waiting.end(),
                     [&](const WaitingJob& waiting) { return waiting.job->request.id == id; });
    return absl::StrCat(id.value(), " (", found->job->request.name, ")");
  }

  // Reserves slots for a job that does not fit.
  void Reserve(const WaitingJob& waiting, DevicePass& device) {
    const JobRequest& job = waiting.job->request;
    const bool settles = !waiting.settles.empty();
    NodeSet open = input_.index->Allowed(job.placement, /*with_pool=*/false);
    open.Keep(device.table.open());
    if (open.Meets(device.reserved)) {
      const auto keeper = std::find_if(device.keepers.begin(), device.keepers.end(),
                                       [&](const auto& entry) { return entry.first.Meets(open); });
      return Keep(job, settles ? Wait::Kind::kSettlement : Wait::Kind::kBehind,
                  settles ? waiting.settles : absl::StrCat("waits behind ", NameOf(keeper->second)),
                  keeper->second);
    }
    std::string reason = settles ? waiting.settles : DescribeShortage(job, device);
    std::optional<ReservationPlan> plan =
        PlanReservation({&job, PriorityOf(job, *input_.queues), open, &device.table, device.coming,
                         device.held, FindReservation(job.id), /*may_displace=*/!settles});
    if (!plan.has_value()) {
      return Keep(job, settles ? Wait::Kind::kSettlement : Wait::Kind::kSlots, std::move(reason));
    }
    for (const size_t victim : plan->victims) {
      HeldSlots& held = device.held[victim];
      decision_.preemptions.push_back({held.job->request.id, job.id});
      LetGo(held, device);
    }
    NodeSet nodes(device.table.size());
    Reservation reservation{job.id, {}};
    for (const NodeShare& share : plan->kept) {
      device.table.Keep(share.node, share.count);
      nodes.Add(share.node);
      reservation.kept[device.table.node(share.node).name] = share.count;
    }
    NoteKeeper(device, std::move(nodes), job.id);
    decision_.reservations.push_back(std::move(reservation));
    Keep(job, settles ? Wait::Kind::kSettlement : Wait::Kind::kReservation, std::move(reason));
  }

  // Cached, since many jobs of the same policy lack the same.
  std::string DescribeShortage(const JobRequest& job, DevicePass& device) {
    const NodeSet* allowed = &input_.index->Allowed(job.placement, /*with_pool=*/false);
    auto& [version, text] = device.shortages[{allowed, job.shards}];
    if (text.empty() || version != device.table.version()) {
      version = device.table.version();
      text = paceline::DescribeShortage(job, *allowed, device.table);
    }
    return absl::StrCat(DescribeWish(job, device.table), ": ", text);
  }

  const Reservation* FindReservation(const JobId& job) const {
    const auto found =
        std::find_if(input_.reservations.begin(), input_.reservations.end(),
                     [&](const Reservation& reservation) { return reservation.job == job; });
    return found == input_.reservations.end() ? nullptr : &*found;
  }

  ScheduleInput input_;
  std::vector<DevicePass> devices_;  // By Device.
  std::map<std::string, std::array<int, 2>> used_;
  ScheduleDecision decision_;
};

}  // namespace

std::pair<int, int> PriorityOf(const JobRequest& job, const Queues& queues) {
  const auto queue = queues.find(job.queue);
  return {queue == queues.end() ? 0 : queue->second.priority, job.priority};
}

bool IsOnItsWayOut(const Job& job) {
  return job.state == JobState::kStopping || job.checkpoints.stop_after.has_value();
}

bool CanBeDisplaced(const Job& job) {
  if (job.state != JobState::kRunning || IsOnItsWayOut(job) || !SavesCheckpoints(job.request)) {
    return false;
  }
  const auto& order = job.checkpoints.order;
  return !order.has_value() || order->state != SaveOrder::State::kFailed ||
         order->generation != job.generation;
}

ScheduleDecision DecideSchedule(ScheduleInput input) { return Pass(std::move(input)).Run(); }

}  // namespace paceline
