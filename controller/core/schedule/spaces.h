// The nodes as the scheduler sees them: their slots, and which jobs hold them.
#ifndef CONTROLLER_CORE_SCHEDULE_SPACES_H_
#define CONTROLLER_CORE_SCHEDULE_SPACES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/node/node.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/schedule.h"

namespace paceline {

// Whether new ranks may be placed on the node.
bool IsOpen(const Node& node);

// Why not, to complete "nodes that ...": "do not answer".
std::string WhyClosed(const Node& node);

// The slots of every node, by name. Borrows from `nodes`.
std::vector<NodeSpace> SpacesOf(const std::map<NodeName, Node>& nodes,
                                const std::map<JobId, Job>& jobs, Device device);

// The same for all kinds of devices, and which jobs hold the slots. Borrows from `jobs`, too.
void Survey(const std::map<NodeName, Node>& nodes, const std::map<JobId, Job>& jobs,
            ScheduleInput& input);

// Memory of the largest device on which a rank of the job could be placed: of a GPU, or of a whole
// node if it trains on CPUs. Nothing if there is no such device, or one whose memory is unknown.
std::optional<int64_t> LargestDeviceMemory(const JobRequest& job,
                                           const std::map<NodeName, Node>& nodes);
// The same of the memory of the whole nodes that have such a device.
std::optional<int64_t> LargestHostMemory(const JobRequest& job,
                                         const std::map<NodeName, Node>& nodes);

// Borrows from `nodes`.
NodeIndex IndexOf(const std::map<NodeName, Node>& nodes);

// Sets how many slots are kept for jobs that wait for this kind of device.
void MarkKept(const std::vector<Reservation>& reservations, const std::map<JobId, Job>& jobs,
              Device device, std::vector<NodeSpace>& spaces);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_SPACES_H_
