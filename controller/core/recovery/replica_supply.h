// What the vacant seats of a sharded model's replicas can be filled with after a loss: spares and
// free slots; and which replicas can be whole with that, and with the members of those that cannot.
#ifndef CONTROLLER_CORE_RECOVERY_REPLICA_SUPPLY_H_
#define CONTROLLER_CORE_RECOVERY_REPLICA_SUPPLY_H_

#include <map>
#include <string>
#include <vector>

#include "common/core/lanes.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/seat_holders.h"

namespace paceline {

// "replica 2 (ranks 4 to 5)", by the ranks of the present generation.
std::string DescribeReplica(const Job& job, int replica);

// Replicas with seats that are held or vacant, those with the fewest vacant ones first.
std::vector<int> ReplicasByHoles(const Job& job, const SeatHolders& holders);

class ReplicaSupply {
 public:
  // Both are borrowed.
  ReplicaSupply(const Job& job, const SeatHolders& holders);

  // Finds the slots that are missing besides spares, replica by replica, near the members of each.
  void Find(const FindSlots& find_slots);

  const std::vector<Slot>& slots() const { return slots_; }
  // Only if the job requires domains: by replica of which nobody is left, a slot in the domain that
  // it gets.
  const std::map<int, Slot>& homes() const { return homes_; }

  // The replicas that can be whole, those with the fewest vacant seats first.
  std::vector<int> FindWhole() const;

  // "replica 2 (ranks 4 to 5) waits for 1 slot", and where, if the job requires domains.
  std::string DescribeWait() const;

 private:
  std::vector<Slot> UsableSpares() const;
  // Spares and slots, by domain.
  std::map<DomainKey, int> CountByDomain() const;
  // By replica with vacant seats.
  std::map<int, int> CountHoles() const;
  std::map<int, std::vector<Slot>> SlotsOfTorn() const;
  std::string DescribeDomains() const;

  const Job& job_;
  const SeatHolders& holders_;
  const Lanes lanes_;
  const Span widest_;
  std::vector<Slot> slots_;
  std::map<int, Slot> homes_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_REPLICA_SUPPLY_H_
