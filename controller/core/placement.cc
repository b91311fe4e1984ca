#include "controller/core/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

const char* PlaceName(Device device, int count) {
  if (device == Device::kCuda) return count == 1 ? "GPU" : "GPUs";
  return count == 1 ? "slot" : "slots";
}

}  // namespace

Placement Place(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  std::vector<NodeSpace> open;
  int free = 0;
  int closed = 0;
  for (const NodeSpace& node : nodes) {
    if (node.open && node.free > 0) open.push_back(node);
    if (node.open) free += node.free;
    if (!node.open) closed += node.total;
  }
  if (free < job.ranks) {
    std::string reason = absl::StrCat("waits for ", job.ranks, " ",
                                      PlaceName(job.device, job.ranks), ": ", free, " free now");
    if (closed > 0) absl::StrAppend(&reason, ", ", closed, " on nodes that do not answer");
    return {{}, reason};
  }
  std::stable_sort(open.begin(), open.end(), [](const NodeSpace& a, const NodeSpace& b) {
    return a.free != b.free ? a.free > b.free : a.name < b.name;
  });
  Placement placement;
  for (const NodeSpace& node : open) {
    const int wanted = job.ranks - static_cast<int>(placement.nodes.size());
    placement.nodes.insert(placement.nodes.end(), std::min(wanted, node.free), node.name);
  }
  return placement;
}

absl::Status CanEverFit(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  int total = 0;
  for (const NodeSpace& node : nodes) total += node.total;
  if (total >= job.ranks) return absl::OkStatus();
  if (nodes.empty()) {
    return absl::FailedPreconditionError(
        "no worker has registered yet: start one (paceline-worker --controller HOST:PORT)");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", job.ranks, " ", PlaceName(job.device, job.ranks), " and the ",
      nodes.size(), nodes.size() == 1 ? " node has " : " nodes have ", total,
      " in all: ask for fewer ranks or add workers"));
}

}  // namespace paceline
