#include "controller/core/schedule/schedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/schedule/device_pass.h"
#include "controller/core/schedule/extra_ranks.h"
#include "controller/core/schedule/reserve.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {
namespace {

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
    for (DevicePass& device : devices_) {
      GiveBackToRunning(device);
      decision_.give_backs.insert(device.extra.given().begin(), device.extra.given().end());
    }
    return std::move(decision_);
  }

 private:
  DevicePass& Of(const JobRequest& job) { return devices_[static_cast<int>(job.device)]; }

  void CountHeld() {
    using Cost = std::tuple<std::pair<int, int>, int64_t, int64_t>;
    std::vector<std::pair<Cost, const Job*>> elastic;
    for (HeldSlots& holding : input_.holding) {
      const JobRequest& job = holding.job->request;
      for (const NodeShare& share : holding.shares) Used(job) += share.count;
      DevicePass& device = Of(job);
      HeldSlots& held = device.held.emplace_back(std::move(holding));
      held.priority = PriorityOf(job, *input_.queues);
      if (IsOnItsWayOut(*held.job)) {
        LetGo(held, device);
      } else if (IsElastic(job)) {
        const std::vector<NodeShare> leaving = LeavingSlots(*held.job, *input_.index);
        Expect(job, leaving, device);
        TakeOff(leaving, held.shares);
        if (held.job->state != JobState::kRunning) continue;
        const Cost cost = {held.priority, -absl::ToUnixNanos(held.job->started), -held.job->number};
        elastic.emplace_back(cost, held.job);
      }
    }
    std::sort(elastic.begin(), elastic.end());
    for (const auto& [cost, job] : elastic) Of(job->request).extra.Add(*job);
  }

  void LetGo(HeldSlots& held, DevicePass& device) {
    held.leaves = true;
    Expect(held.job->request, held.shares, device);
  }

  // These slots of the job are about to become free.
  void Expect(const JobRequest& job, const std::vector<NodeShare>& shares, DevicePass& device) {
    for (const NodeShare& share : shares) {
      device.coming[share.node] += share.count;
      Coming(job) += share.count;
    }
  }

  // Slots that jobs of the queue hold, or wait for ahead of the jobs still to be decided.
  int& Used(const JobRequest& job) { return used_[job.queue][static_cast<int>(job.device)]; }
  // Those of them that are about to become free.
  int& Coming(const JobRequest& job) { return coming_[job.queue][static_cast<int>(job.device)]; }

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
    DevicePass& device = Of(job);
    const int least = LeastToStart(job);
    const int used = Used(job);
    const std::optional<int> quota = queue->second.Quota(job.device);
    if (quota.has_value() && used + least > *quota) {
      Used(job) += least;
      if (waiting.settles.empty()) {
        GiveBackQuota(job, used + least - *quota, /*partly=*/false, device);
      }
      return Keep(
          job, waiting.settles.empty() ? Wait::Kind::kQuota : Wait::Kind::kSettlement,
          waiting.settles.empty()
              ? absl::StrCat("waits for ", least, " ", SlotNoun(job.device, least), " of queue ",
                             job.queue, ": ", used, " of its ", *quota, " are held or promised")
              : waiting.settles);
    }
    std::vector<Slot> slots =
        PlaceMost(job, quota.has_value() ? std::min(job.ranks, *quota - used) : job.ranks, device);
    const int ranks = slots.empty() ? least : static_cast<int>(slots.size());
    Used(job) += ranks;
    if (slots.empty()) return Reserve(waiting, device);
    if (!waiting.settles.empty()) {
      NoteKeeper(device, NodesOf(slots, device.table), job.id);
      return Keep(job, Wait::Kind::kSettlement, waiting.settles);
    }
    int spares = job.spares;
    if (quota.has_value()) spares = std::min(spares, *quota - used - ranks);
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

  // The same for as many ranks as possible, up to `most`; of a job that is not elastic for all.
  std::vector<Slot> PlaceMost(const JobRequest& job, int most, DevicePass& device) const {
    if (most == job.ranks) {
      std::vector<Slot> slots = TryToPlace(job, device);
      if (!slots.empty() || !IsElastic(job)) return slots;
      --most;
    }
    JobRequest fewer = job;
    fewer.ranks = PossibleRanksOf(job, most);
    while (fewer.ranks >= LeastToStart(job) && fewer.ranks > 0) {
      std::vector<Slot> slots = TryToPlace(fewer, device);
      if (!slots.empty()) return slots;
      fewer.ranks = PossibleRanksOf(job, fewer.ranks - 1);
    }
    return {};
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
    const int least = LeastToStart(waiting.job->request);
    if (least == waiting.job->request.ranks) return Reserve(waiting, waiting.job->request, device);
    JobRequest fewer = waiting.job->request;
    fewer.ranks = least;
    Reserve(waiting, fewer, device);
  }

  // `job`: its request, with the fewest ranks that it starts with.
  void Reserve(const WaitingJob& waiting, const JobRequest& job, DevicePass& device) {
    const bool settles = !waiting.settles.empty();
    const NodeSet open = OpenTo(job, /*with_pool=*/false, device);
    if (!settles) GiveBackSlots(job, open, device);
    if (open.Meets(device.reserved)) {
      if (!device.extra.empty()) device.Claim(RankBlocks(job), open);
      const auto keeper = std::find_if(device.keepers.begin(), device.keepers.end(),
                                       [&](const auto& entry) { return entry.first.Meets(open); });
      return Keep(job, settles ? Wait::Kind::kSettlement : Wait::Kind::kBehind,
                  settles ? waiting.settles : absl::StrCat("waits behind ", NameOf(keeper->second)),
                  keeper->second);
    }
    std::string reason = settles ? waiting.settles : DescribeShortage(job, device);
    const auto plan_with = [&](const std::vector<int>& coming, const std::vector<HeldSlots>& held) {
      return PlanReservation({&job, PriorityOf(job, *input_.queues), open, &device.table, coming,
                              held, FindReservation(job.id), /*may_displace=*/!settles});
    };
    std::optional<ReservationPlan> plan = plan_with(device.coming, device.held);
    if (plan.has_value() && !plan->victims.empty()) {
      SpareVictims(job, open, plan_with, *plan, device);
    }
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
      device.claimed[share.node] += std::max(0, share.count - device.table.room(share.node));
      device.table.Keep(share.node, share.count);
      nodes.Add(share.node);
      reservation.kept[device.table.node(share.node).name] = share.count;
    }
    NoteKeeper(device, std::move(nodes), job.id);
    decision_.reservations.push_back(std::move(reservation));
    Keep(job, settles ? Wait::Kind::kSettlement : Wait::Kind::kReservation, std::move(reason));
  }

  // The open nodes that the job may use.
  NodeSet OpenTo(const JobRequest& job, bool with_pool, const DevicePass& device) const {
    NodeSet open = input_.index->Allowed(job.placement, with_pool);
    open.Keep(device.table.open());
    return open;
  }

  // The same for a running job.
  NodeSet OpenTo(const Job& job, const DevicePass& device) const {
    NodeSet open = OpenTo(job.request, /*with_pool=*/true, device);
    for (const auto* left : {&job.recovery.vacate, &job.recovery.avoid}) {
      for (const auto& [node, why] : *left) {
        const int n = input_.index->Find(node);
        if (n >= 0) open.Remove(n);
      }
    }
    return open;
  }

  static std::string Beneficiary(const JobRequest& job) {
    return absl::StrCat("job ", job.id.value(), " (", job.name, ")");
  }

  static bool Anybody(const JobRequest&) { return true; }

  static int Sum(const std::vector<int>& freed) {
    return std::accumulate(freed.begin(), freed.end(), 0);
  }

  void Free(const ExtraRanks::Freed& freed, DevicePass& device) {
    paceline::Free(freed, device.coming, device.held);
    NoteComing(freed);
  }

  void NoteComing(const ExtraRanks::Freed& freed) {
    for (const auto& [giver, shares] : freed.by_job) {
      for (const NodeShare& share : shares) Coming(giver->request) += share.count;
    }
  }

  // Lets running jobs give extra ranks back, if the waiting job then fits.
  void GiveBackSlots(const JobRequest& job, const NodeSet& open, DevicePass& device) {
    if (device.extra.empty()) return;
    const auto fit = [&](const std::vector<int>& freed) {
      return device.CountFit(job, open, freed);
    };
    Free(device.extra.Give(fit, RankBlocks(job).count, /*partly=*/false, Beneficiary(job), Anybody),
         device);
  }

  // The same, if its queue then may hold it; or, if `partly`, more of it.
  void GiveBackQuota(const JobRequest& job, int lacking, bool partly, DevicePass& device) {
    const auto in_queue = [&](const JobRequest& other) { return other.queue == job.queue; };
    const auto held = [&](const std::vector<int>& more) { return Coming(job) + Sum(more); };
    Free(device.extra.Give(held, lacking, partly, Beneficiary(job), in_queue), device);
  }

  // The same for running jobs that lack slots, as far as there are no free ones.
  void GiveBackToRunning(DevicePass& device) {
    for (size_t h = 0; h < device.held.size() && !device.extra.empty(); ++h) {
      const Job& job = *device.held[h].job;
      int missing = device.held[h].leaves ? 0 : MissingRanks(job);
      if (missing == 0) continue;
      const NodeSet open = OpenTo(job, device);
      missing = std::max(0, missing - GiveOwn(job, missing, open, device));
      missing = WithinQuota(job, missing, device);
      const auto fit = [&](const std::vector<int>& freed) {
        return UsableSlots(job, std::min(missing, CountSoon(open, freed, device)));
      };
      JobRequest lacking;
      lacking.ranks = UsableSlots(job, missing);
      Free(
          device.extra.Give(fit, lacking.ranks, /*partly=*/true, Beneficiary(job.request), Anybody),
          device);
      device.Claim(RankBlocks(lacking), open);
    }
  }

  static int CountSoon(const NodeSet& nodes, const std::vector<int>& freed,
                       const DevicePass& device) {
    int slots = 0;
    nodes.ForEach([&](int n) { slots += device.Soon(n, freed[static_cast<size_t>(n)]); });
    return slots;
  }

  // Lets a job whose ranks have to move give up extra ranks for that. Returns how many of those
  // that have to move are among them.
  int GiveOwn(const Job& job, int missing, const NodeSet& open, DevicePass& device) {
    if (job.recovery.vacate.empty()) return 0;
    const std::vector<int> none(static_cast<size_t>(device.table.size()));
    const int free = CountSoon(open, none, device);
    const auto own = [&](const JobRequest& other) { return other.id == job.request.id; };
    const ExtraRanks::Freed freed =
        device.extra.Give([&](const std::vector<int>& more) { return free + Sum(more); }, missing,
                          /*partly=*/true, "a rank that has to move", own);
    Free(freed, device);
    int moving = 0;
    for (const auto& [giver, shares] : freed.by_job) {
      for (const NodeShare& share : shares) {
        const NodeName& node = device.table.node(share.node).name;
        if (job.recovery.vacate.count(node) > 0) moving += share.count;
      }
    }
    return moving;
  }

  // How many of the slots that a running job lacks its queue may hold, also when jobs of the queue
  // give extra ranks back for that.
  int WithinQuota(const Job& job, int missing, DevicePass& device) {
    if (!GrowsWithinQuota(job)) return missing;
    const auto queue = input_.queues->find(job.request.queue);
    if (queue == input_.queues->end()) return 0;
    const std::optional<int> quota = queue->second.Quota(job.request.device);
    if (!quota.has_value()) return missing;
    const int used = Used(job.request);
    GiveBackQuota(job.request, used + missing - *quota, /*partly=*/true, device);
    const int left = std::clamp(*quota - used + Coming(job.request), 0, missing);
    Used(job.request) += left;
    return left;
  }

  // Where jobs would be displaced: lets others give extra ranks back instead, if fewer are then.
  template <typename PlanWith>
  void SpareVictims(const JobRequest& job, const NodeSet& open, PlanWith plan_with,
                    ReservationPlan& plan, DevicePass& device) {
    const auto fit = [&](const std::vector<int>& freed) {
      return device.CountFit(job, open, freed);
    };
    ExtraRanks extra = device.extra;
    const ExtraRanks::Freed freed =
        extra.Give(fit, RankBlocks(job).count, /*partly=*/true, Beneficiary(job), Anybody);
    if (freed.by_job.empty()) return;
    std::vector<int> coming = device.coming;
    std::vector<HeldSlots> held = device.held;
    paceline::Free(freed, coming, held);
    std::optional<ReservationPlan> better = plan_with(coming, held);
    if (!better.has_value() || better->victims.size() >= plan.victims.size()) return;
    plan = *std::move(better);
    device.extra = std::move(extra);
    device.coming = std::move(coming);
    device.held = std::move(held);
    NoteComing(freed);
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
  std::map<std::string, std::array<int, 2>> used_, coming_;
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
