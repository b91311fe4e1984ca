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

Placement PlaceRanks(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  std::vector<NodeSpace> open;
  int free = 0;
  int closed = 0;
  for (const NodeSpace& node : nodes) {
    if (node.open && !node.free.empty()) open.push_back(node);
    if (node.open) free += static_cast<int>(node.free.size());
    if (!node.open) closed += node.total;
  }
  if (free < job.ranks) {
    std::string reason = absl::StrCat("waits for ", job.ranks, " ",
                                      PlaceName(job.device, job.ranks), ": ", free, " free now");
    if (closed > 0) absl::StrAppend(&reason, ", ", closed, " on nodes that do not answer");
    return {{}, reason};
  }
  std::stable_sort(open.begin(), open.end(), [](const NodeSpace& a, const NodeSpace& b) {
    return a.free.size() != b.free.size() ? a.free.size() > b.free.size() : a.name < b.name;
  });
  Placement placement;
  for (const NodeSpace& node : open) {
    for (const int number : node.free) {
      if (static_cast<int>(placement.places.size()) == job.ranks) return placement;
      placement.places.push_back({node.name, number, node.rack});
    }
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
  if (total == 0 && job.device == Device::kCuda) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", job.ranks, " ", PlaceName(job.device, job.ranks),
        " and no node has one: add workers on machines with GPUs, or train with device: cpu"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the job needs ", job.ranks, " ", PlaceName(job.device, job.ranks), " and the ",
                   nodes.size(), nodes.size() == 1 ? " node has " : " nodes have ", total,
                   " in all: ask for fewer ranks or add workers"));
}

}  // namespace paceline
