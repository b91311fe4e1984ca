// Checks on random clusters and histories what must always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "controller/core/schedule/slot_table.h"
#include "controller/core/testing/small_cluster.h"

namespace paceline {
namespace {

constexpr int kHistories = 60;
constexpr int kEvents = 80;

class History {
 public:
  explicit History(int seed) : random_(static_cast<uint64_t>(seed)) {
    cluster_.queues = {{"default", {}}, {"high", {1}}, {"narrow", {}}};
    cluster_.queues["narrow"].slots = 5;
    for (int n = 0; n < 3 + Below(8); ++n) {
      SmallCluster::Labels labels = {{"rack", absl::StrCat(n / 3)}, {"kind", Below(2) ? "x" : "y"}};
      if (Below(6) == 0) labels["taint.old"] = "yes";
      if (Below(8) == 0) labels["pool"] = "spare";
      cluster_.AddNode(absl::StrCat("n", n), 1 + Below(5), labels, Below(3));
    }
  }

  void Run() {
    for (int event = 0; event < kEvents; ++event) {
      Happen();
      ScheduleDecision again = cluster_.Decide();
      cluster_.Pass();
      ASSERT_EQ(Text(again), Text(cluster_.last)) << "deterministic";
      Check();
      ASSERT_EQ(cluster_.Decide().starts.size(), 0u) << "one pass starts all that can start";
    }
  }

 private:
  int Below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  void Happen() {
    const int kind = Below(10);
    if (kind < 5) return Submit();
    if (kind == 5) {
      auto node = std::next(cluster_.nodes.begin(), Below(static_cast<int>(cluster_.nodes.size())));
      node->second.open = !node->second.open;
      return;
    }
    if (cluster_.jobs.empty()) return;
    auto job = std::next(cluster_.jobs.begin(), Below(static_cast<int>(cluster_.jobs.size())));
    if (job->second.checkpoints.stop_after.has_value()) {
      cluster_.Requeue(job->first.value());
    } else if (kind < 9) {
      cluster_.End(job->first.value());
    }
  }

  void Submit() {
    const char* const queues[] = {"default", "default", "high", "narrow"};
    Job& job = cluster_.SubmitSaving(absl::StrCat("j", ++submitted_), 1 + Below(6), Below(3),
                                     queues[Below(4)]);
    if (Below(3) == 0) job.request.checkpoints.directory.clear();
    if (Below(4) == 0) job.request.device = Device::kCuda;
    if (Below(4) == 0) job.request.spares = 1;
    PlacementPolicy& policy = job.request.placement;
    if (Below(4) == 0) policy.labels["kind"] = "x";
    if (Below(5) == 0) policy.same = "rack";
    if (Below(5) == 0) policy.tolerate = {"old"};
    if (Below(8) == 0) policy.exclude_nodes = {NodeName("n1")};
    if (Below(4) == 0) {
      policy.ranks_per_node = 1 + Below(3);
      job.request.ranks = policy.ranks_per_node * (1 + Below(3));
    } else if (Below(3) == 0) {
      job.request.shards = 2 + Below(3);
      job.request.ranks = job.request.shards * (1 + Below(2));
      if (Below(2) == 0) policy.replica = ReplicaPlacement::kRequire;
    }
  }

  static std::string Text(const ScheduleDecision& decision) {
    std::string text;
    for (const auto& start : decision.starts) {
      absl::StrAppend(&text, start.job.value(), ":");
      for (const Slot& slot : start.placement.slots) {
        absl::StrAppend(&text, " ", slot.node.value(), ".", slot.number);
      }
    }
    for (const auto& [job, wait] : decision.waits) absl::StrAppend(&text, job.value(), wait.reason);
    for (const auto& p : decision.preemptions) absl::StrAppend(&text, p.victim.value());
    return text;
  }

  void Check() {
    std::set<std::tuple<Device, NodeName, int>> held;
    std::map<std::string, int> slots;
    for (const auto& [id, job] : cluster_.jobs) {
      ForEachSlot(job, [&, &j = job](const Slot& slot) {
        ASSERT_TRUE(held.insert({j.request.device, slot.node, slot.number}).second)
            << "two on one slot";
        if (j.request.device == Device::kCpu) ++slots[j.request.queue];
      });
    }
    ASSERT_LE(slots["narrow"], 5);
    for (const auto& start : cluster_.last.starts) CheckStart(start);
    for (const auto& preemption : cluster_.last.preemptions) {
      Job& victim = cluster_.jobs.at(preemption.victim);
      const Job& other = cluster_.jobs.at(preemption.beneficiary);
      ASSERT_LT(PriorityOf(victim.request, cluster_.queues),
                PriorityOf(other.request, cluster_.queues));
      ASSERT_TRUE(CanBeDisplaced(victim));
      victim.checkpoints.stop_after.emplace();
    }
  }

  void CheckStart(const ScheduleDecision::Start& start) {
    const JobRequest& job = cluster_.jobs.at(start.job).request;
    ASSERT_EQ(static_cast<int>(start.placement.slots.size()), job.ranks);
    ASSERT_LE(static_cast<int>(start.placement.spares.size()), job.spares);
    std::set<std::string> racks;
    for (const Slot& slot : start.placement.slots) {
      const SmallCluster::TestNode& node = cluster_.nodes.at(slot.node);
      ASSERT_TRUE(node.open);
      ASSERT_LT(slot.number, job.device == Device::kCuda ? node.gpus : node.slots);
      ASSERT_EQ(node.labels.count("pool"), 0u);
      CheckPolicy(job.placement, slot.node, node);
      racks.insert(slot.rack);
    }
    for (const Slot& slot : start.placement.spares) {
      CheckPolicy(job.placement, slot.node, cluster_.nodes.at(slot.node));
      racks.insert(slot.rack);
    }
    std::map<NodeName, int> on_node;
    for (const Slot& slot : start.placement.slots) ++on_node[slot.node];
    for (const auto& [node, count] : on_node) {
      if (job.placement.ranks_per_node > 0) {
        ASSERT_EQ(count, job.placement.ranks_per_node);
      }
    }
    if (job.placement.same == "rack") {
      ASSERT_EQ(racks.size(), 1u);
    }
    if (job.placement.replica == ReplicaPlacement::kRequire) CheckReplicas(start);
  }

  // What is required is at most a rack.
  void CheckReplicas(const ScheduleDecision::Start& start) {
    const std::vector<Slot>& slots = start.placement.slots;
    const size_t shards = static_cast<size_t>(cluster_.jobs.at(start.job).request.shards);
    for (size_t r = 0; r < slots.size(); ++r) {
      ASSERT_EQ(slots[r].rack, slots[r / shards * shards].rack);
    }
  }

  static void CheckPolicy(const PlacementPolicy& policy, const NodeName& name,
                          const SmallCluster::TestNode& node) {
    for (const auto& [label, value] : policy.labels) ASSERT_EQ(node.labels.at(label), value);
    for (const NodeName& excluded : policy.exclude_nodes) ASSERT_NE(excluded, name);
    if (node.labels.count("taint.old") > 0) {
      ASSERT_EQ(policy.tolerate.size(), 1u);
    }
  }

  std::mt19937_64 random_;
  SmallCluster cluster_;
  int submitted_ = 0;
};

TEST(ScheduleRandomTest, InvariantsHoldInEveryHistory) {
  for (int seed = 0; seed < kHistories && !::testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    History(seed).Run();
  }
}

// Whatever jobs of the same priority keep coming, every job that could run alone starts at last.
// `sharded`: it requires replicas of two ranks to be on one node, if a node has two slots.
void ExpectNoJobStarves(bool sharded) {
  for (int seed = 0; seed < kHistories; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int end) {
      return static_cast<int>(random() % static_cast<uint64_t>(end));
    };
    SmallCluster cluster;
    int total = 0;
    int pairs = 0;
    for (int n = 0; n < 2 + below(5); ++n) {
      const int slots = cluster.AddNode(absl::StrCat("n", n), 1 + below(4)).slots;
      total += slots;
      pairs += slots / 2;
    }
    if (pairs == 0) pairs = total / 2;
    std::vector<std::string> running;
    int submitted = 0;
    const auto pass = [&] {
      cluster.Pass();
      for (const auto& start : cluster.last.starts) running.push_back(start.job.value());
    };
    const auto submit_small = [&] {
      cluster.Submit(absl::StrCat("s", ++submitted), 1 + below((total + 2) / 3));
    };
    for (int i = 0; i < total; ++i) submit_small();
    pass();
    if (sharded) {
      Job& large = cluster.Submit("large", 2 * (pairs - below(std::max(1, pairs / 3))));
      large.request.shards = 2;
      large.request.placement.replica = ReplicaPlacement::kRequire;
    } else {
      cluster.Submit("large", total - below(std::max(1, total / 3)));
    }
    // Jobs end in any order, and after each one others come. Only the jobs that run when this one
    // comes, and those ahead of it, can delay it.
    const int bound = static_cast<int>(cluster.jobs.size()) + 1;
    std::set<std::string> before(running.begin(), running.end());
    int generations = 0;
    while (cluster["large"].state == JobState::kQueued && generations++ < bound * 4) {
      submit_small();
      submit_small();
      ASSERT_FALSE(running.empty());
      const auto ends = running.begin() + below(static_cast<int>(running.size()));
      cluster.End(*ends);
      running.erase(ends);
      pass();
    }
    EXPECT_EQ(cluster["large"].state, JobState::kRunning);
  }
}

// A job with replicas of `shards` ranks that require domains, on nodes with these slots, two in
// each island, of which so many are free.
struct RequiringJob {
  // By node.
  std::vector<int> slots, free;
  int replicas = 0;
  int shards = 0;

  // The domain of a node in which a replica has to be.
  int DomainOf(size_t node) const {
    const auto any_has = [this](const std::vector<int>& totals) {
      return std::any_of(totals.begin(), totals.end(), [this](int t) { return t >= shards; });
    };
    if (any_has(slots)) return static_cast<int>(node);
    const bool island = any_has({slots[0] + slots[1], slots[2] + slots[3]});
    return island ? static_cast<int>(node / 2) : 0;
  }

  // How many slots of a reservation are not free; nothing: it does not hold whole replicas.
  std::optional<int> LackingIn(const std::vector<int>& kept) const {
    std::map<int, int> in_domain;
    int sum = 0;
    int lacking = 0;
    for (size_t n = 0; n < slots.size(); ++n) {
      if (kept[n] > slots[n]) return std::nullopt;
      sum += kept[n];
      in_domain[DomainOf(n)] += kept[n];
      lacking += std::max(0, kept[n] - free[n]);
    }
    const bool whole = std::all_of(in_domain.begin(), in_domain.end(), [this](const auto& entry) {
      return entry.second % shards == 0;
    });
    if (!whole || sum != replicas * shards) return std::nullopt;
    return lacking;
  }

  // The least of all reservations; nothing: there is none.
  std::optional<int> LeastLacking() const {
    std::optional<int> least;
    for (int digits = 0; digits < 256; ++digits) {
      const std::optional<int> lacking =
          LackingIn({digits % 4, digits / 4 % 4, digits / 16 % 4, digits / 64});
      if (lacking.has_value() && (!least.has_value() || *lacking < *least)) least = lacking;
    }
    return least;
  }
};

TEST(ScheduleRandomTest, ReservationsForReplicasLackAsFewSlotsAsCanBe) {
  int reserved = 0;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int end) {
      return static_cast<int>(random() % static_cast<uint64_t>(end));
    };
    SmallCluster cluster;
    RequiringJob job;
    for (int n = 0; n < 4; ++n) {
      const std::string name = absl::StrCat("n", n);
      job.slots.push_back(1 + below(3));
      job.free.push_back(below(job.slots.back() + 1));
      cluster.AddNode(name, job.slots.back(), {{"island", absl::StrCat(n / 2)}});
      const int held = job.slots.back() - job.free.back();
      if (held == 0) continue;
      cluster.Submit(absl::StrCat("on-", name), held).request.placement.nodes = {NodeName(name)};
    }
    cluster.Pass();
    job.replicas = 1 + below(2);
    job.shards = 2 + below(3);
    JobRequest& request = cluster.Submit("job", job.replicas * job.shards).request;
    request.shards = job.shards;
    request.placement.replica = ReplicaPlacement::kRequire;
    cluster.Pass();
    const std::optional<int> least = job.LeastLacking();
    ASSERT_EQ(cluster["job"].state == JobState::kRunning, least == 0);
    ASSERT_EQ(cluster.last.reservations.size(), least.has_value() && *least > 0 ? 1u : 0u);
    if (cluster.last.reservations.empty()) continue;
    std::vector<int> kept(4);
    for (const auto& [node, slots] : cluster.last.reservations[0].kept) {
      kept[static_cast<size_t>(node.value()[1] - '0')] = slots;
    }
    ASSERT_EQ(job.LackingIn(kept), least);
    ++reserved;
  }
  EXPECT_GT(reserved, 50) << "few cases say anything";
}

TEST(ScheduleRandomTest, NoJobStarves) { ExpectNoJobStarves(/*sharded=*/false); }

TEST(ScheduleRandomTest, NoJobThatRequiresDomainsStarves) { ExpectNoJobStarves(/*sharded=*/true); }

}  // namespace
}  // namespace paceline
