#include "controller/core/schedule/spaces.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

// Does not use the state, which is derived only after an event was taken in.
bool IsOpen(const Node& node) { return node.contact == Contact::kReachable && node.holds.empty(); }

std::string WhyClosed(const Node& node) {
  if (node.contact == Contact::kLost) return "are lost";
  if (node.contact == Contact::kUnreachable) return "do not answer";
  if (node.holds.empty()) return "";
  return absl::StrCat("are ", DescribeHold(node.holds.front()));
}

namespace {

// The slots of one kind of device while the jobs are visited.
struct Filling {
  std::vector<NodeSpace> spaces;
  std::vector<size_t> first;  // By node: the index in `used` of its first slot.
  std::vector<char> used;     // By slot.
};

Filling Begin(const std::map<NodeName, Node>& nodes, Device device) {
  Filling filling;
  filling.spaces.reserve(nodes.size());
  filling.first.reserve(nodes.size());
  size_t slots = 0;
  for (const auto& [name, node] : nodes) {
    NodeSpace& space = filling.spaces.emplace_back();
    space.name = name;
    space.total =
        device == Device::kCuda ? static_cast<int>(node.facts.gpus.size()) : node.facts.slots;
    filling.first.push_back(slots);
    slots += static_cast<size_t>(std::max(0, space.total));
    space.open = IsOpen(node);
    if (!space.open) space.closed = WhyClosed(node);
    space.labels = &node.facts.labels;
    space.spec_version = node.facts.spec_version;
  }
  filling.used.resize(slots);
  return filling;
}

std::vector<NodeSpace> Finish(Filling filling) {
  for (size_t n = 0; n < filling.spaces.size(); ++n) {
    NodeSpace& space = filling.spaces[n];
    const char* const used = filling.used.data() + filling.first[n];
    const auto free = std::count(used, used + std::max(0, space.total), 0);
    space.free.reserve(static_cast<size_t>(free));
    for (int number = 0; number < space.total; ++number) {
      if (used[number] == 0) space.free.push_back(number);
    }
  }
  return std::move(filling.spaces);
}

// Marks the slots that the job holds as used, and returns them by node.
template <typename Find>
std::vector<NodeShare> Mark(const Job& job, Find find, Filling& filling) {
  std::vector<NodeShare> shares;
  const NodeName* last = nullptr;  // Ranks of a node are neighbours.
  int n = -1;
  ForEachSlot(job, [&](const Slot& slot) {
    if (last == nullptr || *last != slot.node) {
      n = find(slot.node);
      if (n >= 0) shares.push_back({n, 0});
    }
    last = &slot.node;
    if (n < 0) return;
    ++shares.back().count;
    if (slot.number < 0 || slot.number >= filling.spaces[static_cast<size_t>(n)].total) return;
    filling.used[filling.first[static_cast<size_t>(n)] + static_cast<size_t>(slot.number)] = 1;
  });
  return shares;
}

}  // namespace

std::vector<NodeSpace> SpacesOf(const std::map<NodeName, Node>& nodes,
                                const std::map<JobId, Job>& jobs, Device device) {
  Filling filling = Begin(nodes, device);
  const auto find = [&](const NodeName& name) {
    const auto found = std::lower_bound(
        filling.spaces.begin(), filling.spaces.end(), name,
        [](const NodeSpace& space, const NodeName& wanted) { return space.name < wanted; });
    const bool known = found != filling.spaces.end() && found->name == name;
    return known ? static_cast<int>(found - filling.spaces.begin()) : -1;
  };
  for (const auto& [id, job] : jobs) {
    if (job.request.device == device) Mark(job, find, filling);
  }
  return Finish(std::move(filling));
}

void Survey(const std::map<NodeName, Node>& nodes, const std::map<JobId, Job>& jobs,
            ScheduleInput& input) {
  std::array<Filling, 2> fillings = {Begin(nodes, Device::kCpu), Begin(nodes, Device::kCuda)};
  const auto find = [&](const NodeName& name) { return input.index->Find(name); };
  for (const auto& [id, job] : jobs) {
    if (!job.holds_slots()) continue;
    const auto device = static_cast<size_t>(job.request.device);
    input.holding.push_back({&job, Mark(job, find, fillings[device])});
  }
  for (const size_t device : {0, 1}) input.spaces[device] = Finish(std::move(fillings[device]));
}

NodeIndex IndexOf(const std::map<NodeName, Node>& nodes) {
  std::vector<NodeIndex::NodeTraits> traits;
  traits.reserve(nodes.size());
  for (const auto& [name, node] : nodes) {
    traits.push_back({&name, &node.facts.labels, node.facts.spec_version});
  }
  return NodeIndex(std::move(traits));
}

namespace {

// Of each device on the node: its memory; 0: unknown.
std::vector<int64_t> MemoryOfDevices(const NodeFacts& facts, Device device) {
  if (device == Device::kCpu) {
    return facts.slots > 0 ? std::vector<int64_t>{facts.memory_bytes} : std::vector<int64_t>();
  }
  std::vector<int64_t> bytes = facts.gpu_memory_bytes;
  bytes.resize(facts.gpus.size());
  return bytes;
}

// The largest of what `memory_of` gives of the nodes where a rank of the job could be placed.
// Nothing if that is nothing, or one is unknown.
template <typename MemoryOf>
std::optional<int64_t> LargestMemory(const JobRequest& job, const std::map<NodeName, Node>& nodes,
                                     MemoryOf memory_of) {
  const NodeIndex index = IndexOf(nodes);
  // Spares and replacements may come to the pool, too.
  const NodeSet& allowed = index.Allowed(job.placement, /*with_pool=*/true);
  int64_t largest = 0;
  bool known = true;
  int n = 0;
  for (const auto& [name, node] : nodes) {
    if (!allowed.Contains(n++)) continue;
    for (const int64_t bytes : memory_of(node.facts)) {
      known = known && bytes > 0;
      largest = std::max(largest, bytes);
    }
  }
  if (!known || largest == 0) return std::nullopt;
  return largest;
}

}  // namespace

std::optional<int64_t> LargestDeviceMemory(const JobRequest& job,
                                           const std::map<NodeName, Node>& nodes) {
  return LargestMemory(job, nodes,
                       [&](const NodeFacts& facts) { return MemoryOfDevices(facts, job.device); });
}

std::optional<int64_t> LargestHostMemory(const JobRequest& job,
                                         const std::map<NodeName, Node>& nodes) {
  return LargestMemory(job, nodes, [&](const NodeFacts& facts) {
    std::vector<int64_t> bytes;
    if (!MemoryOfDevices(facts, job.device).empty()) bytes.push_back(facts.memory_bytes);
    return bytes;
  });
}

void MarkKept(const std::vector<Reservation>& reservations, const std::map<JobId, Job>& jobs,
              Device device, std::vector<NodeSpace>& spaces) {
  for (const Reservation& reservation : reservations) {
    const auto job = jobs.find(reservation.job);
    if (job == jobs.end() || job->second.request.device != device) continue;
    for (const auto& [name, kept] : reservation.kept) {
      const auto found = std::lower_bound(
          spaces.begin(), spaces.end(), name,
          [](const NodeSpace& space, const NodeName& wanted) { return space.name < wanted; });
      if (found != spaces.end() && found->name == name) found->kept += kept;
    }
  }
}

}  // namespace paceline
