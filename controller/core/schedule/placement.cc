#include "controller/core/schedule/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/schedule/replica_packing.h"
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
  if (!wish.replica.empty()) {
    far += static_cast<int>(Span::kAnywhere);
    for (const NodeName& name : wish.replica) {
      const int home = table.index().Find(name);
      if (home < 0) continue;
      const Span span = table.index().SpanOf(home, n);
      if (span < Span::kAnywhere) far = std::min(far, static_cast<int>(span));
    }
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

// A spare of a sharded job may take a place in any of its replicas, so it goes near one: one that
// has no other spare near it.
Unfitness ForShardedSpare(const SlotTable& table, int n, const SlotWish& wish) {
  const NodeSpace& node = table.node(n);
  const std::string& rack = table.index().rack_name(n);
  const std::string& island = table.index().island_name(n);
  const auto on_node = [&](const Slot& slot) { return slot.node == node.name; };
  const auto in_rack = [&](const Slot& slot) { return slot.rack == rack; };
  const auto in_island = [&](const Slot& slot) { return in_rack(slot) && slot.island == island; };
  const auto any_rank = [&](const auto& is_near) {
    return std::any_of(wish.ranks.begin(), wish.ranks.end(), is_near);
  };
  const bool beside_rank = any_rank(on_node);
  const int far = any_rank(in_island) ? 0 : any_rank(in_rack) ? 1 : 2;
  const auto spares = std::count_if(wish.spares.begin(), wish.spares.end(), in_island);
  const bool beside_spare = std::any_of(wish.spares.begin(), wish.spares.end(), on_node);
  return {2 * beside_rank + !table.index().pool().Contains(n), far,
          2 * static_cast<int>(spares) + beside_spare, table.room(n), n};
}

// The kind of domain that the ranks of a replica have to share; kAnywhere: none.
Span RequiredSpan(const JobRequest& job, const SlotTable& table, const SlotWish& wish) {
  return wish.domain.has_value() ? *wish.domain : table.BlocksOf(job).span;
}

// The domains that a slot has to be in, of this kind: those of the other ranks of its replica, or,
// for a spare, of any ranks.
NodeSet RequiredDomains(const SlotTable& table, const SlotWish& wish, Span span) {
  const NodeIndex& index = table.index();
  std::vector<bool> domains(static_cast<size_t>(index.CountDomains(span)));
  const auto add = [&](const NodeName& name) {
    const int n = index.Find(name);
    if (n >= 0) domains[static_cast<size_t>(index.DomainOf(span, n))] = true;
  };
  if (wish.use == SlotWish::Use::kRank) {
    for (const NodeName& name : wish.replica) add(name);
  } else {
    for (const Slot& rank : wish.ranks) add(rank.node);
  }
  NodeSet nodes(index.size());
  for (int n = 0; n < index.size(); ++n) {
    if (domains[static_cast<size_t>(index.DomainOf(span, n))]) nodes.Add(n);
  }
  return nodes;
}

// The nodes with a slot that the wish allows.
NodeSet Suitable(const JobRequest& job, const SlotTable& table, const SlotWish& wish) {
  NodeSet nodes = table.index().Allowed(job.placement, /*with_pool=*/true);
  nodes.Keep(table.open());
  const std::string& same = job.placement.same;
  const int peer =
      same.empty() || wish.ranks.empty() ? -1 : table.index().Find(wish.ranks.front().node);
  const bool spare = wish.use == SlotWish::Use::kSpare;
  const Span span = RequiredSpan(job, table, wish);
  if (span != Span::kAnywhere && (spare || !wish.replica.empty())) {
    nodes.Keep(RequiredDomains(table, wish, span));
  }
  NodeSet suitable(table.size());
  nodes.ForEach([&](int n) {
    if ((spare ? table.room(n) : table.free(n)) == 0) return;
    if (wish.avoid.count(table.node(n).name) > 0) return;
    if (!same.empty() && table.index().Label(n, same).empty()) return;
    if (peer >= 0 && table.index().Label(n, same) != table.index().Label(peer, same)) return;
    suitable.Add(n);
  });
  return suitable;
}

// The index of the best node; -1: no node suits.
int FindOne(const JobRequest& job, const SlotTable& table, const SlotWish& wish) {
  const auto unfitness_for = wish.use == SlotWish::Use::kRank ? ForRank
                             : job.shards > 1                 ? ForShardedSpare
                                                              : ForSpare;
  int best = -1;
  std::optional<Unfitness> least;
  Suitable(job, table, wish).ForEach([&](int n) {
    const Unfitness unfitness = unfitness_for(table, n, wish);
    if (least.has_value() && !(unfitness < *least)) return;
    least = unfitness;
    best = n;
  });
  return best;
}

// Of a job that requires domains for its replicas, and may use `fit` that are large enough.
absl::Status RefuseReplicas(const JobRequest& job, const RankBlocks& blocks,
                            const std::string& with_same, int fit) {
  const bool one = blocks.replicas() == 1;
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", blocks.replicas(), one ? " replica" : " replicas", with_same, " of ",
      job.shards, " ", SlotNoun(job.device, job.shards), " ", DescribeSpan(blocks.span),
      one ? "" : " each", ", and the nodes that it may use have room for ", fit,
      ": ask for fewer ranks or shards, let replicas be wider (placement.replica: prefer), or add "
      "workers"));
}

bool AnyHas(const std::vector<NodeSpace>& nodes, const char* name, const char* value) {
  return std::any_of(nodes.begin(), nodes.end(), [name, value](const NodeSpace& node) {
    if (node.labels == nullptr) return false;
    const auto label = node.labels->find(name);
    return label != node.labels->end() && label->second == value;
  });
}

// Of a job whose command, whose session or whose code no node that it may use takes.
absl::Status RefuseCommand(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  const bool takes_commands = AnyHas(nodes, kCommandsLabel, kTakesCommands);
  if (takes_commands && job.command->is_session && !AnyHas(nodes, kSessionsLabel, kTakesSessions)) {
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

// What a node does if its operator lets it, by its label, and the error where no node does.
struct OperatorLabel {
  const char* name;
  const char* value;
  const char* refusal;
};
constexpr OperatorLabel kOperatorLabels[] = {
    {kCompiledLabel, kTakesCompiled,
     "no node takes compiled models, which are native code of the submitter's (label "
     "compiled=on): start workers with --run-as USER or as somebody else than root, or with "
     "--commands on (docs/security.md), and update those of earlier versions"},
    {kObjectsLabel, kTakesObjects,
     "no node reads objects of stores, where the job's data is (label objects=on): start workers "
     "with --object-store PREFIX (docs/object-stores.md), and update those of earlier versions"}};

// Of a job that needs what no node's operator allows. OK: there is nothing like that.
absl::Status RefuseNotAllowed(const JobRequest& job, const std::vector<NodeSpace>& nodes) {
  for (const OperatorLabel& label : kOperatorLabels) {
    if (job.placement.labels.count(label.name) == 0) continue;
    if (!AnyHas(nodes, label.name, label.value)) {
      return absl::FailedPreconditionError(label.refusal);
    }
  }
  return absl::OkStatus();
}

// "outer steps and sharded models".
std::string NeedsText(const JobRequest& job) {
  return absl::StrJoin(job.placement.needs.features, " and ");
}

// Of a job that would fit if workers of earlier releases were upgraded. OK: it would not.
absl::Status RefuseOldWorkers(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                              const NodeIndex& index) {
  std::vector<std::string> old;
  NodesOfOldRelease(job, index, /*with_pool=*/false).ForEach([&](int n) {
    if (nodes[n].total > 0) old.push_back(nodes[n].name.value());
  });
  JobRequest anywhere = job;
  anywhere.placement.needs = {};
  if (old.empty() || !CanEverFit(anywhere, nodes).ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the job needs ", job.ranks, " ", SlotNoun(job.device, job.ranks),
                   " on nodes with a worker of this release, for ", NeedsText(job), ", and ",
                   ListNames(old), old.size() == 1 ? " has an earlier one" : " have earlier ones",
                   ": upgrade paceline-worker there"));
}

}  // namespace

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

std::string DescribeOldRelease(const JobRequest& job) {
  return absl::StrCat("need a worker of this release, for ", NeedsText(job),
                      ": upgrade paceline-worker there");
}

NodeSet NodesOfOldRelease(const JobRequest& job, const NodeIndex& index, bool with_pool) {
  if (job.placement.needs.version == 0) return NodeSet(index.size());
  PlacementPolicy anywhere = job.placement;
  anywhere.needs = {};
  NodeSet nodes = index.Allowed(anywhere, with_pool);
  nodes.Remove(index.Allowed(job.placement, with_pool));
  return nodes;
}

std::string ListNames(const std::vector<std::string>& names, size_t more) {
  const size_t listed = std::min(kNamesListed, names.size());
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(listed), ", ");
  more += names.size() - listed;
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

std::string DescribeWish(const JobRequest& job, const SlotTable& table) {
  std::string text = absl::StrCat("waits for ", job.ranks, " ", SlotNoun(job.device, job.ranks));
  const RankBlocks blocks = table.BlocksOf(job);
  if (blocks.one_per_node && blocks.count == 1) {
    absl::StrAppend(&text, " on one node");
  } else if (blocks.one_per_node) {
    absl::StrAppend(&text, ", ", blocks.size, " on each of ", blocks.count, " nodes");
  }
  if (blocks.bound()) {
    absl::StrAppend(&text, ", the ", job.shards, " of a replica ", DescribeSpan(blocks.span));
  }
  if (!job.placement.same.empty()) absl::StrAppend(&text, " with the same ", job.placement.same);
  return text;
}

std::string DescribeShortage(const JobRequest& job, const NodeSet& allowed,
                             const SlotTable& table) {
  const RankBlocks blocks = table.BlocksOf(job);
  BlockCount whole(table.index(), blocks);
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
      whole.Add(n, blocks.Fit(table.room(n)));
      kept += table.free(n) - table.room(n);
    }
  });
  std::string text = absl::StrCat(free, " free now");
  if (blocks.one_per_node) {
    absl::StrAppend(&text, " (", blocks.size, " on ", fit, fit == 1 ? " node)" : " nodes)");
  }
  if (blocks.bound()) {
    const int replicas = whole.total() / blocks.per_replica;
    absl::StrAppend(&text, " (for ", replicas, replicas == 1 ? " replica)" : " replicas)");
  }
  if (kept > 0) absl::StrAppend(&text, ", ", kept, " kept for jobs ahead of it");
  int unusable = 0;
  std::vector<std::string> old;
  size_t more = 0;  // During an upgrade there may be thousands.
  NodesOfOldRelease(job, table.index(), /*with_pool=*/false).ForEach([&](int n) {
    const NodeSpace& node = table.node(n);
    if (node.total == 0) return;
    unusable += node.total;
    if (old.size() == kNamesListed) {
      ++more;
    } else {
      old.push_back(node.name.value());
    }
  });
  if (unusable > 0) {
    absl::StrAppend(&text, ", ", unusable, " on nodes that ", DescribeOldRelease(job), " (",
                    ListNames(old, more), ")");
  }
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
        DescribeWish(job, table), ": ",
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

std::vector<Slot> ListSlots(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                            const NodeIndex& index, const SlotWish& wish, int count) {
  SlotTable table(nodes, index);
  std::vector<Slot> slots;
  Suitable(job, table, wish).ForEach([&](int n) {
    for (int left = table.free(n); left > 0 && static_cast<int>(slots.size()) < count; --left) {
      slots.push_back(table.TakeOne(n));
    }
  });
  return slots;
}

Placement PlaceReplica(const JobRequest& job, const std::vector<NodeSpace>& nodes,
                       const SlotWish& wish, int count) {
  const NodeIndex index = IndexOf(nodes);
  SlotTable table(nodes, index);
  const Span span = RequiredSpan(job, table, wish);
  for (const NodeSet& group : index.Choices(job.placement, Suitable(job, table, wish))) {
    ReplicaPacking packing(index, count);
    group.ForEach([&](int n) { packing.SetRoom(n, table.free(n)); });
    if (packing.Fit(span) > 0) return {table.Take(packing.Pack(1, span)), ""};
  }
  return {{},
          absl::StrCat("there are no ", count, " free ", SlotNoun(job.device, count), " ",
                       DescribeSpan(span), " for a replica where the job may run")};
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
  const RankBlocks blocks = table.BlocksOf(job);
  int most = 0;
  int most_blocks = 0;
  for (const NodeSet& choice : Choices(job, table)) {
    BlockCount fit(index, blocks);
    int total = 0;
    choice.ForEach([&](int n) {
      total += nodes[n].total;
      fit.Add(n, blocks.Fit(nodes[n].total));
    });
    most = std::max(most, total);
    most_blocks = std::max(most_blocks, fit.total());
  }
  if (most_blocks >= blocks.count) return absl::OkStatus();
  if (absl::Status old = RefuseOldWorkers(job, nodes, index); !old.ok()) return old;
  if (all == 0 && job.device == Device::kCuda) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", job.ranks, " ", SlotNoun(job.device, job.ranks),
        " and no node has one: add workers on machines with GPUs, or train with device: cpu"));
  }
  if (most == 0 && job.command.has_value()) return RefuseCommand(job, nodes);
  if (absl::Status status = RefuseNotAllowed(job, nodes); !status.ok()) return status;
  const std::string with_same = job.placement.same.empty() ? ""
                                                           : absl::StrCat(" with the same label \"",
                                                                          job.placement.same, "\"");
  if (most >= job.ranks && blocks.bound()) {
    return RefuseReplicas(job, blocks, with_same, most_blocks / blocks.per_replica);
  }
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
