// Which nodes a job's ranks run on: all ranks at once or none, packed as densely as it goes; or, if
// the job says how many ranks run on each node, exactly so many.
//
// A slot is a slot for a CPU rank, or a GPU for a CUDA rank. Of all sets of free slots that the
// job's policy allows, one with few failure domains is taken: few racks (label "rack"), then few
// islands of fast links (label "island"), then few nodes. Where the last ranks would leave most of
// a domain empty, the smallest domain that holds them is taken, so that empty ones stay whole. Ties
// go by name.
//
// If the job is sharded, the ranks of a replica are placed near each other (replica_packing.h). If
// it requires that (placement.replica), they share a node, if one that the job may use has as many
// slots as a replica has ranks; else an island, if one is large enough; else a rack.
//
// A node with a label "taint.KEY" takes only jobs that tolerate it. One with the label
// "pool" = "spare" takes only spares and replacements, of any job.
#ifndef CONTROLLER_CORE_SCHEDULE_PLACEMENT_H_
#define CONTROLLER_CORE_SCHEDULE_PLACEMENT_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/core/ids.h"
#include "controller/core/job/job.h"

namespace paceline {

class NodeIndex;

// A node as placement sees it, for one kind of device.
struct NodeSpace {
  NodeName name;
  int total = 0;          // Slots that it has in all.
  std::vector<int> free;  // Numbers of those that no job holds, ascending.
  bool open = false;      // Takes ranks now.
  // All its labels; null: none. Borrowed.
  const std::map<std::string, std::string>* labels = nullptr;
  std::string closed = {};  // Why it is not open, as in "does not answer".
  int kept = 0;             // How many of its free slots are kept for waiting jobs.
  int spec_version = 0;     // Of the job spec, that its trainers know.
};

struct Placement {
  std::vector<Slot> slots;        // For rank 0, 1, ...; empty if the job has to wait.
  std::string reason;             // One line: what it waits for.
  std::vector<Slot> spares = {};  // As many as there is room for, at most JobRequest.spares.
};

// `nodes` is sorted by name, without repetitions, here and below.
Placement PlaceRanks(const JobRequest& job, const std::vector<NodeSpace>& nodes);

// A request for one more slot for a running job.
struct SlotWish {
  // kRank: for a rank that was lost or that moves; near the job's ranks, even where slots are kept
  // for waiting jobs. kSpare: away from its ranks, on another node, preferably in another rack,
  // best in the pool of spares; never where slots are kept for waiting jobs. That of a sharded job:
  // preferably in the island or rack of its ranks; where it requires domains, only in theirs.
  enum class Use { kRank, kSpare };
  Use use = Use::kRank;
  std::vector<Slot> ranks;        // Those that the job keeps.
  std::vector<Slot> spares;       // Those of its spares that it keeps.
  std::set<NodeName> avoid = {};  // Nodes that must not be used.
  // For a rank of a sharded job: the nodes of the others of its replica. It goes near them first,
  // and only into their domain if the job requires that.
  std::vector<NodeName> replica = {};
  // The kind of domain that each replica of the job stays in (kAnywhere: it need not). Nothing: as
  // for a new job, for which it follows from the nodes.
  std::optional<Span> domain = {};
};

// Returns one slot in `slots`; or none and a `reason`, if the job's policy allows none.
Placement PlaceOne(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                   const SlotWish& wish);

// Up to `count` of all slots that the wish allows, in the order of the nodes. `index` covers just
// these nodes.
std::vector<Slot> ListSlots(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                            const NodeIndex& index, const SlotWish& wish, int count);

// Slots for `count` ranks of a replica of which no other rank is left: all or none, near each other
// as in PlaceRanks. Requires: wish.use is kRank, placement.ranks_per_node is 0, count > 0.
Placement PlaceReplica(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                       const SlotWish& wish, int count);

// FailedPrecondition, with the reason, if the known nodes could not hold the job even if all were
// reachable and empty.
absl::Status CanEverFit(const JobRequest& job, const std::vector<NodeSpace>& nodes);

// "slot", "GPUs".
const char* SlotNoun(Device device, int count);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_PLACEMENT_H_
