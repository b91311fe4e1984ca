#include "controller/core/schedule/placement.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {
namespace {

std::vector<NodeSet> Choices(const JobRequest& job, SlotTable& table) {
  return table.index().Choices(job.placement,
                               table.index().Allowed(job.placement, /*with_pool=*/false));
}

// How badly a node suits a wish; the least is best. Nothing: the node does not suit at all.
using Unfitness = std::tuple<int, int, int, int, int>;

Unfitness ForRank(const SlotTable& table, int n, const SlotWish& wish) {
  const NodeSpace& node = table.node(n);
  const std::string& rack = table.index().rack_name(n);
  int far = 2;
  for (const Slot& rank : wish.ranks) {
    if (rank.node == node.name) far = 0;
    if (rank.rack == rack) far = std::min(far, 1);
  }
  return {far, table.room(n) == 0, table.index().pool().Contains(n), table.free(n), n};
}

Unfitness ForSpare(const SlotTable& table, int n, const SlotWish& wish) {
  const NodeSpace& node = table.node(n);
  const std::string& rack = table.index().rack_name(n);
  const auto on_node = [&](const Slot& slot) { return slot.node == node.name; };
  const auto in_rack = [&](const Slot& slot) { return !rack.empty() && slot.rack == rack; };
  const bool beside_rank = std::any_of(wish.ranks.begin(), wish.ranks.end(), on_node);
  const bool near_rank = std::any_of(wish.ranks.begin(), wish.ranks.end(), in_rack);
  const bool beside_spare = std::any_of(wish.spares.begin(), wish.spares.end(), on_node);
  return {2 * beside_rank + !table.index().pool().Contains(n), near_rank, beside_spare,
          table.room(n), n};
}

// The index of the best node; -1: no node suits.
int FindOne(const JobRequest& job, SlotTable& table, const SlotWish& wish) {
  NodeSet nodes = table.index().Allowed(job.placement, /*with_pool=*/true);
  nodes.Keep(table.open());
  const std::string& same = job.placement.same;
  const int peer =
      same.empty() || wish.ranks.empty() ? -1 : table.index().Find(wish.ranks.front().node);
  const bool spare = wish.use == SlotWish::Use::kSpare;
  int best = -1;
  std::optional<Unfitness> least;
  nodes.ForEach([&](int n) {
    if ((spare ? table.room(n) : table.free(n)) == 0) return;
    if (wish.avoid.count(table.node(n).name) > 0) return;
    if (!same.empty() && table.index().Label(n, same).empty()) return;
    if (peer >= 0 && table.index().Label(n, same) != table.index().Label(peer, same)) return;
    const Unfitness unfitness = spare ? ForSpare(table, n, wish) : ForRank(table, n, wish);
    if (least.has_value() && !(unfitness < *least)) return;
    least = unfitness;
    best = n;
  });
  return best;
}

// Of a job whose command, whose session or whose code no node that it may use takes.
absl::Status RefuseCommand(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  const auto any_has = [&nodes](const char* name, const char* value) {
    return std::any_of(nodes.begin(), nodes.end(), [name, value](const NodeSpace& node) {
      if (node.labels == nullptr) return false;
      const auto label = node.labels->find(name);
      return label != node.labels->end() && label->second == value;
    });
  };
  const bool takes_commands = any_has(kCommandsLabel, kTakesCommands);
  if (takes_commands && job.command->is_session && !any_has(kSessionsLabel, kTakesSessions)) {
    return absl::FailedPreconditionError(
        "no node that the job may use starts sessions (label sessions=on): update its worker, "
        "since those of earlier versions know commands only");
  }
  if (takes_commands && !job.command->code.empty()) {
    return absl::FailedPreconditionError(
        "no node that the job may use takes code that travels with a job (label code=on): "
        "update its worker, or put the folder where the nodes see it and submit without --ship");
  }
  return absl::FailedPreconditionError(
      "no node that the job may use takes commands (label commands=on): start workers with "
      "--run-as USER or as somebody else than root, or with --commands on (docs/security.md)");
}

}  // namespace

RankBlocks::RankBlocks(const JobRequest& job) : count(job.ranks) {
  if (job.placement.ranks_per_node == 0) return;
  one_per_node = true;
  size = job.placement.ranks_per_node;
  count = job.ranks / size;
}

const char* SlotNoun(Device device, int count) {
  if (device == Device::kCuda) return count == 1 ? "GPU" : "GPUs";
  return count == 1 ? "slot" : "slots";
}

std::vector<Slot> PlaceSpares(const JobRequest& job, const std::vector<Slot>& ranks, int count,
                              SlotTable& table) {
  SlotWish wish{SlotWish::Use::kSpare, ranks, {}};
  while (static_cast<int>(wish.spares.size()) < count) {
    const int node = FindOne(job, table, wish);
    if (node < 0) break;
    wish.spares.push_back(table.TakeOne(node));
  }
  return wish.spares;
}

std::string DescribeWish(const JobRequest& job) {
  std::string text = absl::StrCat("waits for ", job.ranks, " ", SlotNoun(job.device, job.ranks));
  const RankBlocks blocks(job);
  if (blocks.one_per_node && blocks.count == 1) {
    absl::StrAppend(&text, " on one node");
  } else if (blocks.one_per_node) {
    absl::StrAppend(&text, ", ", blocks.size, " on each of ", blocks.count, " nodes");
  }
  if (!job.placement.same.empty()) absl::StrAppend(&text, " with the same ", job.placement.same);
  return text;
}

std::string DescribeShortage(const JobRequest& job, const NodeSet& allowed,
                             const SlotTable& table) {
  const RankBlocks blocks(job);
  int free = 0;
  int kept = 0;
  int fit = 0;
  std::map<std::string, int> closed;
  allowed.ForEach([&](int n) {
    const NodeSpace& node = table.node(n);
    if (!node.open) {
      closed[node.closed.empty() ? "do not answer" : node.closed] += node.total;
    } else {
      free += table.room(n);
      if (blocks.one_per_node) fit += blocks.Fit(table.room(n));
      kept += table.free(n) - table.room(n);
    }
  });
  std::string text = absl::StrCat(free, " free now");
  if (blocks.one_per_node) {
    absl::StrAppend(&text, " (", blocks.size, " on ", fit, fit == 1 ? " node)" : " nodes)");
  }
  if (kept > 0) absl::StrAppend(&text, ", ", kept, " kept for jobs ahead of it");
  for (const auto& [why, count] : closed) {
    if (count > 0) absl::StrAppend(&text, ", ", count, " on nodes that ", why);
  }
  return text;
}

Placement PlaceRanks(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  const NodeIndex index = IndexOf(nodes);
  SlotTable table(nodes, index);
  Placement placement;
  placement.slots = table.Take(table.Pack(job).shares);
  if (placement.slots.empty()) {
    placement.reason = absl::StrCat(
        DescribeWish(job), ": ",
        DescribeShortage(job, index.Allowed(job.placement, /*with_pool=*/false), table));
  } else {
    placement.spares = PlaceSpares(job, placement.slots, job.spares, table);
  }
  return placement;
}

Placement PlaceOne(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                   const SlotWish& wish) {
  const NodeIndex index = IndexOf(nodes);
  SlotTable table(nodes, index);
  const int node = FindOne(job, table, wish);
  if (node >= 0) return {{table.TakeOne(node)}, ""};
  const bool spare = wish.use == SlotWish::Use::kSpare;
  return {{},
          absl::StrCat("no ", SlotNoun(job.device, 1), " is free for a ",
                       spare ? "spare" : "replacement", " where the job may run")};
}

absl::Status CanEverFit(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  if (nodes.empty()) {
    return absl::FailedPreconditionError(
        "no worker has registered yet: start one (paceline-worker --controller HOST:PORT)");
  }
  const NodeIndex index = IndexOf(nodes);
  SlotTable table(nodes, index);
  int all = 0;
  for (const NodeSpace& node : nodes) all += node.total;
  const RankBlocks blocks(job);
  int most = 0;
  int most_blocks = 0;
  for (const NodeSet& choice : Choices(job, table)) {
    int total = 0;
    int fit = 0;
    choice.ForEach([&](int n) {
      total += nodes[n].total;
      fit += blocks.Fit(nodes[n].total);
    });
    most = std::max(most, total);
    most_blocks = std::max(most_blocks, fit);
  }
  if (most_blocks >= blocks.count) return absl::OkStatus();
  if (all == 0 && job.device == Device::kCuda) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", job.ranks, " ", SlotNoun(job.device, job.ranks),
        " and no node has one: add workers on machines with GPUs, or train with device: cpu"));
  }
  if (most == 0 && job.command.has_value()) return RefuseCommand(job, nodes);
  const std::string with_same = job.placement.same.empty() ? ""
                                                           : absl::StrCat(" with the same label \"",
                                                                          job.placement.same, "\"");
  if (most >= job.ranks) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", blocks.count, blocks.count == 1 ? " node" : " nodes", with_same, " with ",
        blocks.size, " ", SlotNoun(job.device, blocks.size), blocks.count == 1 ? "" : " each",
        " and may use ", most_blocks,
        " of that size: ask for fewer ranks on a node (placement.ranks_per_node), or add workers"));
  }
  if (all >= job.ranks) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", job.ranks, " ", SlotNoun(job.device, job.ranks), " and its placement",
        " allows ", most, " of ", all, with_same,
        ": ask for fewer ranks, or allow more nodes (labels, nodes, exclude_nodes, tolerate, same; "
        "nodes with a taint or of the pool of spares are not used unless that is said)"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the job needs ", job.ranks, " ", SlotNoun(job.device, job.ranks), " and the ",
                   nodes.size(), nodes.size() == 1 ? " node has " : " nodes have ", all,
                   " in all: ask for fewer ranks or add workers"));
}

}  // namespace paceline
