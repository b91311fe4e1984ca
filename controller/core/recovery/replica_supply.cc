#include "controller/core/recovery/replica_supply.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

std::string SlotsText(int count) { return absl::StrCat(count, count == 1 ? " slot" : " slots"); }

void Erase(std::vector<size_t> indices, std::vector<Slot>& slots) {
  std::sort(indices.rbegin(), indices.rend());
  for (const size_t i : indices) slots.erase(slots.begin() + static_cast<int64_t>(i));
}

}  // namespace

std::string DescribeReplica(const Job& job, int replica) {
  const Lanes lanes{job.request.shards};
  const auto first = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
    return lanes.ReplicaOf(member.seat) == replica;
  });
  const int rank = static_cast<int>(first - job.ranks.begin());
  return absl::StrCat("replica ", lanes.ReplicaOf(rank), " (ranks ", rank, " to ",
                      rank + lanes.shards - 1, ")");
}

std::vector<int> ReplicasByHoles(const Job& job, const SeatHolders& holders) {
  const Lanes lanes{job.request.shards};
  std::map<int, int> holes;
  for (const RankState& member : holders.next.members) holes[lanes.ReplicaOf(member.seat)] += 0;
  for (const int seat : holders.vacant) ++holes[lanes.ReplicaOf(seat)];
  std::vector<std::pair<int, int>> order;
  order.reserve(holes.size());
  for (const auto& [replica, count] : holes) order.emplace_back(count, replica);
  std::sort(order.begin(), order.end());
  std::vector<int> replicas;
  replicas.reserve(order.size());
  for (const auto& [count, replica] : order) replicas.push_back(replica);
  return replicas;
}

ReplicaSupply::ReplicaSupply(const Job& job, const SeatHolders& holders)
    : job_(job), holders_(holders), lanes_{job.request.shards}, widest_(WidestDomain(job)) {}

std::vector<Slot> ReplicaSupply::UsableSpares() const {
  std::vector<Slot> slots;
  for (const RankState& spare : holders_.next.spares) {
    if (IsUsable(job_, spare)) slots.push_back(spare.slot);
  }
  return slots;
}

std::map<DomainKey, int> ReplicaSupply::CountByDomain() const {
  std::map<DomainKey, int> there;
  for (const Slot& spare : UsableSpares()) ++there[KeyOf(widest_, spare)];
  for (const Slot& slot : slots_) ++there[KeyOf(widest_, slot)];
  return there;
}

std::map<int, int> ReplicaSupply::CountHoles() const {
  std::map<int, int> holes;
  for (const int seat : holders_.vacant) ++holes[lanes_.ReplicaOf(seat)];
  return holes;
}

std::map<int, std::vector<Slot>> ReplicaSupply::SlotsOfTorn() const {
  std::map<int, std::vector<Slot>> torn;
  for (const int seat : holders_.vacant) torn[lanes_.ReplicaOf(seat)];
  for (const RankState& member : holders_.next.members) {
    const auto replica = torn.find(lanes_.ReplicaOf(member.seat));
    if (replica != torn.end()) replica->second.push_back(member.slot);
  }
  return torn;
}

void ReplicaSupply::Find(const FindSlots& find_slots) {
  const int possible = lanes_.RankOf(static_cast<int>(FindWhole().size()), 0);
  const SlotUse use = MayGoOnWith(job_, possible) > 0 ? SlotUse::kRank : SlotUse::kRankAnywhere;
  const auto find = [&](int count, const std::vector<NodeName>& nodes) {
    const ReplicaHome home{nodes, slots_};
    return find_slots(job_, use, count, &home);
  };
  std::vector<Slot> idle = UsableSpares();
  const std::map<int, int> holes = CountHoles();
  const std::map<int, std::vector<Slot>> torn = SlotsOfTorn();
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    if (torn.count(replica) == 0) continue;
    const std::vector<Slot>& others = torn.at(replica);
    const int count = holes.at(replica);
    NewHome found;
    if (others.empty()) {
      std::optional<NewHome> home = FindNewHome(idle, count, widest_, find);
      if (!home.has_value()) continue;
      found = *std::move(home);
      if (widest_ != Span::kAnywhere) {
        homes_[replica] = found.idle.empty() ? found.slots.front() : idle[found.idle.front()];
      }
    } else {
      found.idle = ChooseNear(idle, others, DomainOfReplica(job_, replica), count);
      const int missing = count - static_cast<int>(found.idle.size());
      if (missing > 0) found.slots = find(missing, NodesOf(others));
    }
    Erase(std::move(found.idle), idle);
    std::move(found.slots.begin(), found.slots.end(), std::back_inserter(slots_));
  }
}

std::vector<int> ReplicaSupply::FindWhole() const {
  std::map<DomainKey, int> there = CountByDomain();
  std::map<int, DomainKey> domains;  // By replica.
  for (const auto& [replica, slot] : homes_) domains[replica] = KeyOf(widest_, slot);
  for (const RankState& member : holders_.next.members) {
    const DomainKey key = KeyOf(widest_, member.slot);
    domains.emplace(lanes_.ReplicaOf(member.seat), key);
    ++there[key];
  }
  std::vector<int> whole;
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    const auto domain = domains.find(replica);
    // Without members and without a requirement, any domain will do.
    if (domain == domains.end() && widest_ != Span::kAnywhere) continue;
    int& left = there[domain == domains.end() ? DomainKey() : domain->second];
    if (left < lanes_.shards) continue;
    left -= lanes_.shards;
    whole.push_back(replica);
  }
  return whole;
}

std::string ReplicaSupply::DescribeWait() const {
  if (widest_ != Span::kAnywhere) return DescribeDomains();
  const std::map<int, int> holes = CountHoles();
  const int found = static_cast<int>(UsableSpares().size() + slots_.size());
  const int missing = std::max(0, static_cast<int>(holders_.vacant.size()) - found);
  const std::string replicas = absl::StrJoin(holes, ", ", [&](std::string* out, const auto& torn) {
    absl::StrAppend(out, DescribeReplica(job_, torn.first));
  });
  return absl::StrCat(replicas, holes.size() == 1 ? " waits for " : " wait for ",
                      SlotsText(missing));
}

// What each replica lacks in its domain.
std::string ReplicaSupply::DescribeDomains() const {
  std::map<DomainKey, int> left = CountByDomain();
  const std::map<int, int> holes = CountHoles();
  std::map<int, std::vector<Slot>> torn = SlotsOfTorn();
  for (const auto& [replica, slot] : homes_) torn[replica].push_back(slot);
  std::vector<std::string> waits;
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    if (holes.count(replica) == 0) continue;
    int missing = holes.at(replica);
    std::string where = DescribeSpan(widest_);
    if (const std::vector<Slot>& others = torn[replica]; !others.empty()) {
      int& here = left[KeyOf(widest_, others.front())];
      const int taken = std::min(here, missing);
      here -= taken;
      missing -= taken;
      where = DescribeDomain(widest_, others.front());
    }
    if (missing == 0) continue;
    waits.push_back(absl::StrCat(DescribeReplica(job_, replica), " waits for ", SlotsText(missing),
                                 " ", where));
  }
  return absl::StrCat(absl::StrJoin(waits, ", "), " (placement.replica: require)");
}

}  // namespace paceline
