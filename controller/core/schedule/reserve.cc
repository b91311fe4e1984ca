#include "controller/core/schedule/reserve.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "controller/core/schedule/rank_blocks.h"

namespace paceline {
namespace {

// Nodes that keep the job's slots, and how many of these slots are neither free nor about to
// become free.
struct Candidate {
  std::vector<NodeShare> kept;
  int lacking = 0;
};

// {domain, slots that each of them lacks, -(slots that the node soon has), node, blocks}
using BlocksOnNode = std::tuple<int, int, int, int, int>;

class Planner {
 public:
  explicit Planner(const ReservationWish& wish)
      : wish_(wish),
        blocks_(wish.table->BlocksOf(*wish.job)),
        table_(*wish.table),
        coming_(wish.coming) {}

  std::optional<ReservationPlan> Plan() {
    ReservationPlan plan;
    std::vector<NodeSet> choices;
    for (NodeSet& choice : table_.index().Choices(wish_.job->placement, wish_.nodes)) {
      if (Total(choice) >= blocks_.count) choices.push_back(std::move(choice));
    }
    if (choices.empty()) return std::nullopt;
    if (wish_.may_displace) plan.victims = ChooseVictims(choices);
    std::optional<Candidate> best = Present();
    for (const NodeSet& choice : choices) {
      Candidate candidate = Choose(choice);
      if (!best.has_value() || candidate.lacking < best->lacking) best = std::move(candidate);
    }
    plan.kept = std::move(best->kept);
    return plan;
  }

 private:
  int Soon(int n) const { return table_.free(n) + coming_[n]; }

  // Blocks that fit into the nodes when they are empty.
  int Total(const NodeSet& nodes) const {
    BlockCount count(table_.index(), blocks_);
    count.AddAll(nodes, [this](int n) { return blocks_.Fit(table_.node(n).total); });
    return count.total();
  }

  // Blocks that fit into the nodes when what is coming is free.
  BlockCount CountSoon(const NodeSet& nodes) const {
    BlockCount count(table_.index(), blocks_);
    count.AddAll(nodes, [this](int n) { return blocks_.Fit(Soon(n)); });
    return count;
  }

  // The slots that become free by themselves, if they suffice; else as few nodes as hold the
  // ranks. Nodes that soon have the most slots go first.
  Candidate Choose(const NodeSet& nodes) const {
    if (blocks_.bound()) return ChooseDomains(nodes);
    std::vector<std::pair<int, int>> order;
    int sum = 0;
    nodes.ForEach([&](int n) {
      if (blocks_.Fit(table_.node(n).total) > 0) order.emplace_back(-Soon(n), n);
      sum += blocks_.Fit(Soon(n));
    });
    std::sort(order.begin(), order.end());
    const bool comes = sum >= blocks_.count;
    Candidate candidate;
    int left = blocks_.count;
    for (const auto& [soon, n] : order) {
      if (left == 0) break;
      const int blocks = std::min(left, blocks_.Fit(comes ? Soon(n) : table_.node(n).total));
      const int kept = blocks * blocks_.size;
      candidate.kept.push_back({n, kept});
      candidate.lacking += std::max(0, kept - Soon(n));
      left -= blocks;
    }
    return candidate;
  }

  // The blocks of these nodes by domain, those that lack the fewest slots first.
  std::vector<BlocksOnNode> SortByDomain(const NodeSet& nodes, const BlockCount& domains) const {
    std::vector<BlocksOnNode> sorted;
    nodes.ForEach([&](int n) {
      const int soon = blocks_.Fit(Soon(n));
      const int more = blocks_.Fit(table_.node(n).total) - soon;
      const int lacking = blocks_.one_per_node ? blocks_.size - Soon(n) : 1;
      if (soon > 0) sorted.push_back({domains.DomainOf(n), 0, -Soon(n), n, soon});
      if (more > 0) sorted.push_back({domains.DomainOf(n), lacking, -Soon(n), n, more});
    });
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  // By domain: how many blocks to keep there, so that as few slots as possible are lacking. Of
  // equal domains those that soon have the most slots.
  std::map<int, int> ShareOut(const std::vector<BlocksOnNode>& sorted,
                              const BlockCount& domains) const {
    // What each further replica in a domain lacks, which never falls: {slots, -soon, domain}.
    std::vector<std::tuple<int, int, int>> replicas;
    int present = -1;  // The domain.
    int blocks = 0;    // Of a replica that is not whole yet.
    int lacking = 0;
    for (const auto& [domain, each, soon, n, count] : sorted) {
      if (std::exchange(present, domain) != domain) blocks = lacking = 0;
      for (int left = count; left > 0;) {
        const int part = std::min(left, blocks_.per_replica - blocks);
        left -= part;
        blocks += part;
        lacking += part * each;
        if (blocks < blocks_.per_replica) continue;
        replicas.emplace_back(lacking, -domains.RoomIn(domain), domain);
        blocks = lacking = 0;
      }
    }
    const auto end = replicas.begin() + blocks_.replicas();
    std::partial_sort(replicas.begin(), end, replicas.end());
    std::map<int, int> shares;
    for (auto replica = replicas.begin(); replica != end; ++replica) {
      shares[std::get<2>(*replica)] += blocks_.per_replica;
    }
    return shares;
  }

  // What Choose does where replicas require domains: as few slots as can be are lacking. So what it
  // chooses stays the best as long as nothing else becomes free.
  Candidate ChooseDomains(const NodeSet& nodes) const {
    const BlockCount soon = CountSoon(nodes);
    const std::vector<BlocksOnNode> sorted = SortByDomain(nodes, soon);
    std::map<int, int> left = ShareOut(sorted, soon);
    std::map<int, int> kept;  // By node.
    for (const BlocksOnNode& there : sorted) {
      const auto share = left.find(std::get<0>(there));
      if (share == left.end() || share->second == 0) continue;
      const int blocks = std::min(share->second, std::get<4>(there));
      share->second -= blocks;
      kept[std::get<3>(there)] += blocks * blocks_.size;
    }
    Candidate candidate;
    for (const auto& [n, slots] : kept) {
      candidate.kept.push_back({n, slots});
      candidate.lacking += std::max(0, slots - Soon(n));
    }
    return candidate;
  }

  // The present reservation; nothing if it is no longer possible.
  std::optional<Candidate> Present() const {
    if (wish_.present == nullptr) return std::nullopt;
    Candidate candidate;
    BlockCount blocks(table_.index(), blocks_);
    int count = 0;
    for (const auto& [name, kept] : wish_.present->kept) {
      const int n = table_.index().Find(name);
      if (n < 0 || !wish_.nodes.Contains(n) || table_.node(n).total < kept) return std::nullopt;
      candidate.kept.push_back({n, kept});
      candidate.lacking += std::max(0, kept - Soon(n));
      count += kept;
      blocks.Add(n, blocks_.Fit(kept));
    }
    if (count != wish_.job->ranks || blocks.total() < blocks_.count) return std::nullopt;
    return candidate;
  }

  // The fewest jobs that make room in one of the choices. Then counts their slots as coming.
  std::vector<size_t> ChooseVictims(const std::vector<NodeSet>& choices) {
    std::vector<size_t> best;
    for (const NodeSet& choice : choices) {
      const int needed = blocks_.count - CountSoon(choice).total();
      if (needed <= 0) return {};  // It will fit there.
      std::vector<size_t> victims = VictimsIn(choice, needed);
      if (!victims.empty() && (best.empty() || victims.size() < best.size())) {
        best = std::move(victims);
      }
    }
    for (const size_t victim : best) {
      for (const NodeShare& share : wish_.held[victim].shares) coming_[share.node] += share.count;
    }
    return best;
  }

  static bool HoldsOn(const NodeSet& nodes, const HeldSlots& held) {
    return std::any_of(held.shares.begin(), held.shares.end(),
                       [&](const NodeShare& share) { return nodes.Contains(share.node); });
  }

  // Empty: so many blocks would not fit without all jobs that could be displaced either.
  std::vector<size_t> VictimsIn(const NodeSet& choice, int needed) const {
    std::vector<size_t> order;
    for (size_t h = 0; h < wish_.held.size(); ++h) {
      const HeldSlots& held = wish_.held[h];
      if (held.priority < wish_.priority && !held.leaves && CanBeDisplaced(*held.job)) {
        order.push_back(h);
      }
    }
    const auto cost = [this](size_t h) {
      const HeldSlots& held = wish_.held[h];
      return std::make_tuple(held.priority, -absl::ToUnixNanos(held.job->started),
                             -held.job->number);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    std::vector<int> gone(static_cast<size_t>(table_.size()));  // By node: slots of the chosen.
    // How many more blocks fit when the job's slots are added to those, or (sign -1) taken back.
    BlockCount count = CountSoon(choice);
    const auto change = [&](size_t h, int sign) {
      const int total = count.total();
      for (const NodeShare& share : wish_.held[h].shares) {
        if (!choice.Contains(share.node)) continue;
        const int before = Soon(share.node) + gone[share.node];
        gone[share.node] += sign * share.count;
        count.Add(share.node,
                  blocks_.Fit(Soon(share.node) + gone[share.node]) - blocks_.Fit(before));
      }
      return count.total() - total;
    };
    std::vector<size_t> chosen;
    int surplus = -needed;
    for (auto h = order.begin(); h != order.end() && surplus < 0; ++h) {
      if (!HoldsOn(choice, wish_.held[*h])) continue;
      chosen.push_back(*h);
      surplus += change(*h, 1);
    }
    if (surplus < 0) return {};
    // Leaves out those that are not needed after all, the costliest first.
    std::vector<size_t> victims;
    for (auto h = chosen.rbegin(); h != chosen.rend(); ++h) {
      const int lost = -change(*h, -1);
      if (lost <= surplus) {
        surplus -= lost;
      } else {
        change(*h, 1);
        victims.push_back(*h);
      }
    }
    return victims;
  }

  const ReservationWish& wish_;
  const RankBlocks blocks_;
  SlotTable& table_;
  std::vector<int> coming_;
};

}  // namespace

std::optional<ReservationPlan> PlanReservation(const ReservationWish& wish) {
  return Planner(wish).Plan();
}

}  // namespace paceline
