#include "controller/core/schedule/reserve.h"

#include <algorithm>
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
    nodes.ForEach([&](int n) { count.Add(n, blocks_.Fit(table_.node(n).total)); });
    return count.total();
  }

  // Blocks that fit into the nodes when what is coming is free.
  BlockCount CountSoon(const NodeSet& nodes) const {
    BlockCount count(table_.index(), blocks_);
    nodes.ForEach([&](int n) { count.Add(n, blocks_.Fit(Soon(n))); });
    return count;
  }

  // The slots that become free by themselves, if they suffice; else as few nodes as hold the
  // ranks. Nodes that soon have the most slots go first, and, where replicas require one, domains.
  Candidate Choose(const NodeSet& nodes) const {
    const BlockCount soon = CountSoon(nodes);
    const bool comes = soon.total() >= blocks_.count;
    BlockCount room(table_.index(), blocks_);
    std::vector<std::tuple<int, int, int, int>> order;
    nodes.ForEach([&](int n) {
      if (blocks_.Fit(table_.node(n).total) == 0) return;
      room.Add(n, blocks_.Fit(comes ? Soon(n) : table_.node(n).total));
      const int domain = soon.DomainOf(n);
      order.emplace_back(-soon.RoomIn(domain), domain, -Soon(n), n);
    });
    std::sort(order.begin(), order.end());
    Candidate candidate;
    int left = blocks_.count;
    int present = -1;  // The domain.
    int whole = 0;     // Blocks of whole replicas that it still has room for.
    for (const auto& [soon_in, domain, soon_on, n] : order) {
      if (left == 0) break;
      if (std::exchange(present, domain) != domain) whole = room.TotalIn(domain);
      const int fit = blocks_.Fit(comes ? Soon(n) : table_.node(n).total);
      const int blocks = std::min({left, whole, fit});
      if (blocks == 0) continue;
      const int kept = blocks * blocks_.size;
      candidate.kept.push_back({n, kept});
      candidate.lacking += std::max(0, kept - Soon(n));
      left -= blocks;
      whole -= blocks;
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
