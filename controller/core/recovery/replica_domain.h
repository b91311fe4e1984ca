// Which slots are near a replica of a sharded job (common/core/lanes.h), and which it may have.
//
// A replica's domain is the narrowest one with all its ranks: a node, else an island, else a rack.
// If the job requires domains (placement.replica), a replica stays within one of the kind that the
// job's replicas are in; else it may be anywhere.
#ifndef CONTROLLER_CORE_RECOVERY_REPLICA_DOMAIN_H_
#define CONTROLLER_CORE_RECOVERY_REPLICA_DOMAIN_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/schedule/placement_policy.h"

namespace paceline {

// The narrowest domain of the slot and the nearest of the others; kAnywhere if there are none.
Span SpanTo(const std::vector<Slot>& others, const Slot& slot);

// The kind of the replica's domain in the present generation; at most a rack, even if it is wider.
Span DomainOfReplica(const Job& job, int replica);

// The kind of domain that no replica of the job may leave; kAnywhere: there is none.
Span WidestDomain(const Job& job);

// A replica that is stretched: at the newest start all its ranks were in one domain of the kind
// `home`, and now some are elsewhere. (One that was stretched from the start has no such domain.)
struct StretchedReplica {
  int replica = 0;
  Span home = Span::kNode;
  std::vector<Slot> inside;  // Of the ranks in the domain that has most of them.
  std::vector<int> outside;  // Seats of the others.
};
std::vector<StretchedReplica> FindStretched(const Job& job);
// Those of them that are to be mended (JobRecovery::mending); none while the job leaves nodes.
std::vector<StretchedReplica> FindMending(const Job& job);

// The domain of that kind that the slot is in. Only keys of the same kind can be compared.
using DomainKey = std::pair<std::string, std::string>;
DomainKey KeyOf(Span kind, const Slot& slot);

// "on node b", "in island x".
std::string DescribeDomain(Span kind, const Slot& slot);

// Each node once.
std::vector<NodeName> NodesOf(const std::vector<Slot>& slots);

// Up to `count` of the slots, by index, all within a domain of the kind `widest`: those nearest to
// the others, which share such a domain. If there are no others: those of the narrowest domain that
// has so many; if none has, as many as there are in one.
std::vector<size_t> ChooseNear(const std::vector<Slot>& slots, const std::vector<Slot>& others,
                               Span widest, int count);

// What a replica of which no rank is left can be made of.
struct NewHome {
  std::vector<size_t> idle;  // Of the trainers that stand by, by index.
  std::vector<Slot> slots;   // For the rest of its ranks.
};

// Finds so many trainers and slots within a domain of the kind `widest`; nothing: there are not as
// many. `idle`: the slots of trainers that stand by. `find`: as many free slots as there are, near
// these nodes; if none are given, all of them near each other, or none.
using FindHere = std::function<std::vector<Slot>(int count, const std::vector<NodeName>& nodes)>;
std::optional<NewHome> FindNewHome(const std::vector<Slot>& idle, int count, Span widest,
                                   const FindHere& find);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_REPLICA_DOMAIN_H_
