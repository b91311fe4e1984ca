// One rank of a job with Slipstream: what its two threads do next
// (docs/decisions/0013-slipstream.md).
//
//   compute thread        NextCompute ─▶ copy · wait · step · stop · end ─▶ On...
//   communication thread  NextComm ─▶ wait · hash · exchange · fill · reduce · apply · end ─▶ On...
//
//   a round, local modes:  idle ─▶ [fill] ─▶ exchange ─▶ [reduce] ─▶ apply ─▶ idle
//   modes of gradients:    idle ◀─▶ exchange (polls) ─▶ fill ─▶ reduce ─▶ apply ─▶ idle
//   a stop:                ... ─▶ apply ─▶ stopped, until the compute thread tells, ─▶ idle
//
// Whatever all ranks have to do alike is in RoundState; here is what concerns this rank: which work
// of its own is sent, in flight or not sent yet, which buffers have which names (copies.h), and who
// may touch them. While the communication thread fills or applies, the compute thread
// publishes but does not rebase; otherwise it never waits for the other one, which waits for
// its copies. Orders are such that no two passes conflict:
//
//   copy     kPublish         x ─▶ pub               kRebase         z, x, ref ─▶ x, ref, pub
//            kRebaseInFlight  the same and sent      kReset          z ─▶ x, ref
//            kLoad            z ─▶ x
//   fill     kUpdate          sent, ref ─▶ wire      kGradient       gradients ─▶ wire
//   apply                     wire, z ─▶ z; in modes of gradients by the optimizer; what a lossy
//                             sum does not have of this rank's update is taken out of sent or ref
//
// Updates may travel in a lossy format. What it leaves out, the *rest*, stays in x - ref and goes
// with the rank's next update. A round that ranks stop for, or after which another plan holds,
// is exact, and in a settling one a rank sends its rest alone if it has no update.
//
// Any order but kWait has begun when it is returned, and its thread tells when it is done. A wait
// ends at its time, or when the other thread has told something.
//
// Thread-compatible: one mutex of the caller's guards it, not held while an order is carried out.
// Pure; time is an argument, of any steady clock.
#ifndef SLIPSTREAM_RANK_H_
#define SLIPSTREAM_RANK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/core/startup_steps.h"
#include "slipstream/header.h"
#include "slipstream/late_gradients.h"
#include "slipstream/plan.h"
#include "slipstream/quorum.h"
#include "slipstream/round_state.h"
#include "slipstream/running_median.h"

namespace paceline {

struct ComputeOrder {
  enum class Kind {
    kWait,
    kCopy,      // As `copy` says; then OnCopied.
    kUpdate,    // A step that updates x; then OnStepped.
    kGradient,  // A step that makes a gradient at x; then OnGradient.
    kStop,      // What is due (RoundState::due); all ranks have x = z. Then OnStopped.
    kEnd,       // No further step; x = z.
  };
  enum class Copy { kPublish, kRebase, kRebaseInFlight, kReset, kLoad };
  enum class Wait {
    kCap,    // This rank is too far ahead of the last round.
    kRound,  // All stop for it, or it takes this rank's gradient.
    kPass,   // The communication thread is using the buffers: for moments, and rarely.
    kGroup,  // Not of a rank by itself: for the others of its group (group_steps.h).
  };
  Kind kind = Kind::kWait;
  Copy copy = Copy::kPublish;
  Wait wait = Wait::kRound;
  // kReset: the optimizer forgets its state, which the bad update may have come from.
  bool resets_optimizer = false;
};

struct CommOrder {
  enum class Kind {
    kWait,      // Until `until`.
    kHash,      // Of z; then OnHashed.
    kExchange,  // Sum Numbers() over all ranks; then OnExchanged.
    kFill,      // The wire buffer, as `fill` says; then OnFilled.
    kReduce,    // Sum what the payload names over all ranks; then OnReduced.
    kApply,     // The sums to what the payload names; then OnApplied.
    kEnd,
  };
  enum class Fill { kUpdate, kGradient, kZeros };
  // What is summed and by which numbers sums are divided; 0: not at all.
  struct Payload {
    int model = 0;           // The wire buffer.
    int state = 0;           // Tensors of the optimizer,
    bool has_state = false;  // of which this rank adds its own, or zeros.
    // The wire buffer is summed in the lossy format, and the rest
    bool lossy = false;
    bool has_update = false;  // is taken out of `sent`, where this rank's update is; else of `ref`.
  };
  Kind kind = Kind::kWait;
  absl::Time until = absl::InfiniteFuture();
  Fill fill = Fill::kZeros;
  Payload payload;
};

class SlipstreamRank {
 public:
  struct Options {
    int rank = 0;
    bool stops_at_bad_update = true;  // Else it is left out, and the rank takes z.
    // So many first steps of this rank are not typical.
    int64_t startup_steps = kStartupSteps;
    bool lossy_updates = false;  // In local modes.
  };

  // x = z in all parts; the state is the same on all ranks.
  SlipstreamRank(const Options& options, const RoundState& state, absl::Time now);

  // The compute thread. `took`: without waits. `loss` of the step; left out if it is not finite.
  ComputeOrder NextCompute(absl::Time now);
  void OnCopied(absl::Duration took);
  void OnStepped(absl::Duration took, double loss);
  // `squared`: of its norm; not finite if one of its values is not.
  void OnGradient(double squared, absl::Duration took, double loss);
  void OnStopped(absl::Time now);

  // The communication thread. OnFilled: `squared` is of the update, 0 if there is none.
  CommOrder NextComm(absl::Time now);
  void OnHashed(uint64_t hash);
  std::vector<double> Numbers(absl::Time now);
  void OnExchanged(absl::Span<const double> sums, absl::Time now);
  void OnFilled(double squared);
  void OnReduced(absl::Time now);
  RoundOutcome OnApplied(absl::Time now);

  // From now on this rank votes for it. Older ones than known are ignored.
  void Prepare(const SlipstreamPlan& plan);
  void OrderSave(int64_t number);
  void ReadyToLeave(int64_t generation);
  // This rank cannot go on: it makes no further step, sends nothing, and all end with the next
  // header, also that of a later generation. The first reason counts.
  void SetFault(const std::string& reason);

  // The step that the compute thread was ordered to make, if any, is not made. (In `pause` the rank
  // may then come to a round without one: others of its group stand still for the round.)
  void DropStep();

  // The generation broke off, in a round that some may have finished, or was left. `theirs` is the
  // state of the most advanced member (meeting.h), with the new generation's number and ranks; if
  // this rank has missed something its z has been replaced by that of the other one. No order is
  // being carried out but a wait, a stop, or a step of the compute thread. Who has missed no more
  // than the round that it was in keeps what it has not sent, others lose it.
  void Rejoin(int rank, const RoundState& theirs, absl::Time now);

  const RoundState& state() const { return state_; }
  // Of the latest header.
  const RoundSums& sums() const { return sums_; }
  // Step of the schedule that a learning rate is for.
  int64_t schedule_step() const;
  // How often, in this generation, it was agreed that steps are updates; that they were from the
  // beginning counts, too. Alike on all ranks that have finished the same round.
  int64_t update_periods() const { return update_periods_; }
  // What pub, sent and ref are, as numbers of three buffers. They change between orders.
  struct Buffers {
    int pub = 0;
    int sent = 1;
    int ref = 2;
  };
  const Buffers& buffers() const { return buffers_; }

  // Why all ended; empty: they have not. It names the round and, if they are known, the ranks; of
  // several that cannot go on each knows of itself.
  const std::string& fault() const { return fault_text_; }
  const std::vector<int>& fault_ranks() const { return fault_ranks_; }
  // It is that the ranks' canonical models differ.
  bool models_differ() const { return models_differ_; }

  int64_t updates() const { return updates_; }            // Of x, by this rank,
  int64_t sent_updates() const { return sent_updates_; }  // in finished rounds, and
  int64_t lost_updates() const { return lost_updates_; }  // lost: bad ones, or left behind.
  // Rounds with work of this rank, and, summed over them, by how many changes z was ahead of the
  // model that the work was done on.
  int64_t contributions() const { return contributions_; }
  int64_t stale_rounds() const { return stale_rounds_; }
  int64_t used_gradients() const { return used_gradients_; }
  const LateGradients& late() const { return late_; }

 private:
  enum class Phase {
    kIdle,
    kHashing,
    kFilling,
    kFilled,
    kExchanging,
    kDecided,   // All know what the round is; the wire is to be filled,
    kToReduce,  // it is,
    kReducing,
    kReduced,  // summed, or there is nothing to sum.
    kApplying,
    kRollCall,
    kStopped,
    kEnded,
  };

  bool local() const { return IsLocal(state_.plan.mode); }
  bool is_settling_rest() const { return has_rest_ && state_.settles; }
  bool is_between_rounds() const { return phase_ == Phase::kIdle || phase_ == Phase::kHashing; }
  bool uses_buffers() const { return phase_ == Phase::kFilling || phase_ == Phase::kApplying; }
  bool stands() const { return phase_ == Phase::kStopped || phase_ == Phase::kEnded; }
  // In modes of gradients: who takes part is known.
  bool is_decided() const {
    return phase_ == Phase::kFilling || (Phase::kDecided <= phase_ && phase_ <= Phase::kApplying);
  }
  ComputeOrder NextLocal(absl::Time now);
  ComputeOrder NextGradient(absl::Time now);
  bool WaitsForTheOthers(absl::Time now) const;
  bool IsComing(absl::Time now) const;
  ComputeOrder Copy(ComputeOrder::Copy copy);
  bool Stops(absl::Time now) const;
  bool HasStopped() const;
  // In `pause`: it has made a step since the latest round, or could not, as its group waits.
  bool may_pause() const { return updates_ > finished_ || step_dropped_; }
  bool IsStretched(absl::Time now) const;
  bool PublishIsDue(absl::Time now) const;
  std::optional<absl::Time> WaitsUntil(absl::Time now) const;
  CommOrder Begin(Phase phase, CommOrder::Kind kind);
  CommOrder BeginRound(absl::Time now);
  void Decide(absl::Time now);
  absl::Time NextRoundAt(absl::Time now) const;
  void EndWith(const std::string& what, std::vector<int> ranks);
  void TakeSent();
  void SetGradientUsed();
  void ReviewGradient();
  void AddStep(absl::Duration took, double loss);

  Options options_;
  RoundState state_;
  Phase phase_ = Phase::kIdle;

  // Own work. updates_ >= published_ >= finished_.
  Buffers buffers_;
  int64_t updates_ = 0;
  int64_t published_ = 0;          // Of these pub holds so many,
  int64_t finished_ = 0;           // and ref.
  int64_t updates_at_finish_ = 0;  // When the latest round finished.
  int64_t in_flight_ = 0;
  int64_t in_flight_version_ = 0;  // Of the z that it is built on.
  bool has_sent_ = false;          // An update is in flight, or a rest.
  bool pub_is_x_ = false;          // But for updates that are not published.
  bool has_rest_ = false;          // Of lossy sums, in x - ref.
  int64_t sent_updates_ = 0;
  int64_t lost_updates_ = 0;
  int64_t version_ = 0;           // Of z: changes of it.
  int64_t ref_version_ = 0;       // Of the z that ref is built on,
  int64_t x_version_ = 0;         // that x was last made from, in modes of gradients,
  int64_t gradient_version_ = 0;  // and that the latest gradient is of.
  int64_t update_periods_ = 0;
  absl::Time version_since_;  // The end of the latest round, or stop.
  bool needs_reset_ = false;
  bool resets_optimizer_ = false;  // With the reset.

  // Compute thread.
  bool computing_ = false;
  bool step_dropped_ = false;  // Since the latest step or round.
  int64_t steps_ = 0;          // Made in all.
  absl::Time step_began_;      // Of a gradient.
  bool copying_ = false;
  ComputeOrder::Copy copy_ = ComputeOrder::Copy::kPublish;
  bool offered_ = false;  // A gradient that may be used, or waits for the round to finish.
  double squared_gradient_ = 0;
  struct Losses {
    double sum = 0;
    int64_t count = 0;
  };
  Losses losses_;       // Of steps since the latest header.
  Losses told_losses_;  // Of headers since the latest round that was decided.
  LateGradients late_;
  int64_t used_gradients_ = 0;
  int64_t contributions_ = 0;
  int64_t stale_rounds_ = 0;
  RunningMedian step_;
  RunningMedian copies_;
  absl::Duration copies_in_round_;

  // Communication thread.
  absl::Time next_at_;  // The next round, or poll.
  absl::Time round_began_;
  absl::Time reduce_began_;
  RunningMedian collective_;
  bool stretched_ = false;
  bool after_stop_ = false;  // No round has been made since.
  std::optional<uint64_t> hash_;
  Quorum quorum_;
  RoundSums sums_;
  RoundState next_state_;  // When the round that is decided has finished.
  RoundOutcome outcome_;
  CommOrder::Payload payload_;
  bool included_ = false;  // This rank's gradient is in the round.
  bool filled_ = false;
  double squared_update_ = 0;

  // What this rank tells.
  bool excluded_ = false;       // A bad update or gradient, not told of in a round yet;
  bool told_excluded_ = false;  // in the latest header it was.
  bool fault_ = false;
  std::string fault_reason_;
  bool told_ready_ = false;
  SlipstreamPlan newest_plan_;
  SlipstreamPlan told_plan_;
  int64_t save_order_ = 0;
  int64_t next_generation_ = 0;
  std::string fault_text_;
  std::vector<int> fault_ranks_;
  bool models_differ_ = false;
};

}  // namespace paceline

#endif  // SLIPSTREAM_RANK_H_
