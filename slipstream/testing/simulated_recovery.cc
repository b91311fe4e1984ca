// What the simulated ranks do when one of them dies.
#include <optional>
#include <utility>
#include <vector>

#include "slipstream/rendezvous.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {

void SimulatedRanks::Kill(int rank, bool replaced) {
  this->rank(rank).dead = true;
  replaces_ = replaced;
  if (!std::exchange(broken_, true)) {
    After(options_.longest_message + Random(options_.longest_recovery), [this] { CutOff(); });
  }
  After(absl::ZeroDuration(), [this] { RendezvousAgain(); });
}

// Ends collectives under way; passes come to their end.
void SimulatedRanks::CutOff() {
  cut_off_ = true;
  for (const auto& rank : ranks_) {
    if (!rank->in_collective) continue;
    ++rank->incarnation;
    rank->in_collective = rank->comm_busy = false;
    rank->comm_pass.reset();
  }
  RendezvousAgain();
}

// Makes the ranks rendezvous once no pass is under way any more.
void SimulatedRanks::RendezvousAgain() {
  if (!cut_off_) return;
  std::vector<std::optional<RoundState>> reported;
  for (const auto& rank : ranks_) {
    if (rank->dead) continue;
    if (rank->comm_busy || rank->copies) return;
    if (!rank->machine.fault().empty()) {  // All ranks end for good.
      queue_ = {};
      return;
    }
    reported.emplace_back(rank->machine.state());
  }
  const int before = ranks();
  std::vector<std::unique_ptr<SimulatedRank>> survivors;
  for (auto& rank : ranks_) (rank->dead ? dead_ : survivors).push_back(std::move(rank));
  ranks_ = std::move(survivors);
  const int members = replaces_ ? before : ranks();
  const SlipstreamDecision decision = DecideSlipstreamRendezvous(reported);
  const SimulatedRank& source = *ranks_[static_cast<size_t>(*decision.source)];
  const SimulatedVector z = source.z;
  const SimulatedVector slots = source.slots;
  const RoundState last = source.machine.state();
  const RoundState state = ForGeneration(last, last.generation + 1, members);
  latest_ = state;
  collectives_.clear();
  finished_.clear();
  stops_.clear();
  groups_.clear();
  broken_ = cut_off_ = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    SimulatedRank& rank = *ranks_[i];
    rank.rank = static_cast<int>(i);
    LeaveGroup(rank);
    EnterGroup(rank);
    Rejoin(rank, state, decision.takes[i] != SlipstreamDecision::Takes::kNothing, z, slots);
  }
  while (ranks() < members) {
    ranks_.push_back(std::make_unique<SimulatedRank>(
        SlipstreamRank::Options{ranks(), options_.stops_at_bad_update, /*startup_steps=*/0,
                                options_.lossy_updates},
        state, z, slots, now_));
    EnterGroup(*ranks_.back());
    ranks_.back()->machine.Prepare(newest_plan_);
  }
  for (const auto& rank : ranks_) Pump(*rank);
}

// Puts a survivor into the new generation. One that is behind takes the source's `z`, and in modes
// of gradients its `slots`.
void SimulatedRanks::Rejoin(SimulatedRank& rank, const RoundState& state, bool behind,
                            const SimulatedVector& z, const SimulatedVector& slots) {
  const SimulatedVector zeros(kSimulatedSize, 0);
  const bool was_sent = rank.in_flight != zeros && behind;
  if (behind) {
    rank.z = z;
    rank.slots = IsLocal(state.plan.mode) ? rank.slots : slots;
  }
  if (rank.at_stop) rank.at_stop = rank.compute_busy = false;
  rank.compute_ended = rank.comm_ended = false;  // A rank that had ended waited for the others.
  ++rank.incarnation;
  rank.collectives = 0;
  const int64_t sent = rank.machine.sent_updates();
  rank.machine.Rejoin(rank.rank, state, ClockOf(rank));
  rank.sent_in_round = was_sent && options_.lossy_updates;  // A rest has no steps.
  if (!options_.lossy_updates && was_sent != (rank.machine.sent_updates() > sent)) {
    Check(rank, "does not know whether its update is in the model that others have");
  }
  rank.CountUsed();
  Check(rank, rank.CheckAccount());
}

}  // namespace paceline
