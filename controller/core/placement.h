// Which nodes a job's ranks run on: all ranks at once or none, on as few nodes as possible.
//
// Nodes are taken in the order of most free places, then by name, and neighbouring ranks
// share a node. A place is a slot for a CPU rank, a GPU for a CUDA rank.
#ifndef CONTROLLER_CORE_PLACEMENT_H_
#define CONTROLLER_CORE_PLACEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/core/ids.h"
#include "controller/core/job.h"

namespace paceline {

// A node in the eyes of placement, for one kind of device.
struct NodeSpace {
  NodeName name;
  int total = 0;          // Places that it has.
  std::vector<int> free;  // Numbers of those that no job holds, ascending.
  bool open = false;      // Takes ranks now.
  std::string rack = {};  // Its label "rack".
};

struct Placement {
  std::vector<Place> places;  // Of rank 0, 1, ...; empty if the job has to wait.
  std::string reason;         // One line: what it waits for.
};

Placement PlaceRanks(const JobRequest& job, const std::vector<NodeSpace>& nodes);

// FailedPrecondition, with the reason, when the nodes known could not hold the job even if
// they were all reachable and empty.
absl::Status CanEverFit(const JobRequest& job, const std::vector<NodeSpace>& nodes);

}  // namespace paceline

#endif  // CONTROLLER_CORE_PLACEMENT_H_
