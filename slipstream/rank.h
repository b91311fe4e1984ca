// One rank of a job with Slipstream: what its two threads do next
// (docs/decisions/0013-slipstream.md).
//
//   compute thread        NextCompute ─▶ copy · wait · step · stop · end ─▶ On...
//   communication thread  NextComm ─▶ wait · hash · exchange · fill · reduce · apply · end ─▶ On...
//
//   a round, local modes:  idle ─▶ [fill] ─▶ exchange ─▶ [reduce] ─▶ apply ─▶ idle
//   modes of gradients:    idle ◀─▶ exchange (polls) ─▶ fill ─▶ reduce ─▶ apply ─▶ idle
//   a stop:                ... ─▶ apply ─▶ stopped until the compute thread reports ─▶ idle
//
// RoundState has what all ranks have to do alike. This class has what concerns this rank: which of
// its own work is sent, in flight or unsent, which buffers have which names (copies.h), and who may
// touch them. While the communication thread fills or applies, the compute thread publishes but
// does not rebase; otherwise it never waits for the communication thread, which waits for its
// copies. Orders are such that no two passes conflict:
//
//   copy     kPublish         x ─▶ pub               kRebase         z, x, ref ─▶ x, ref, pub
//            kRebaseInFlight  the same and sent      kReset          z ─▶ x, ref
//            kLoad            z ─▶ x
//   fill     kUpdate          sent, ref ─▶ wire      kGradient       gradients ─▶ wire
//   apply                     wire, z ─▶ z, in modes of gradients by the optimizer; what a lossy
//                             sum left out of this rank's update is taken off sent or ref
//
// Updates may travel in a lossy format. What this leaves out, the *rest*, stays in x - ref and goes
// out with the rank's next update. A round for which ranks stop, or after which another plan holds,
// is exact; in a settling round a rank that has no update sends its rest alone.
//
// Any order but kWait has begun when it is returned, and its thread reports when it is done. A wait
// ends at its time, or when the other thread has reported something.
//
// Thread-compatible: the caller guards it with one mutex, which is not held while an order is
// carried out. Pure; time is an argument, by any steady clock.
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
    kCopy,      // As `copy` says; then call OnCopied.
    kUpdate,    // A step that updates x; then call OnStepped.
    kGradient,  // A step that makes a gradient with x; then call OnGradient.
    kStop,      // What is due (RoundState::due), while x = z on all ranks. Then call OnStopped.
    kEnd,       // There is no further step; x = z.
  };
  enum class Copy { kPublish, kRebase, kRebaseInFlight, kReset, kLoad };
  enum class Wait {
    kCap,    // This rank is too far ahead of the last round.
    kRound,  // All stop for it, or it is taking this rank's gradient.
    kPass,   // The communication thread is using the buffers; short and rare.
    kGroup,  // For the others of its group (group_steps.h); not ordered here.
  };
  Kind kind = Kind::kWait;
  Copy copy = Copy::kPublish;
  Wait wait = Wait::kRound;
  // For kReset: the optimizer forgets its state, from which the bad update may have come.
  bool resets_optimizer = false;
};

struct CommOrder {
  enum class Kind {
    kWait,      // Until `until`.
    kHash,      // Hash z; then call OnHashed.
    kExchange,  // Sum Numbers() over all ranks; then call OnExchanged.
    kFill,      // Fill the wire buffer as `fill` says; then call OnFilled.
    kReduce,    // Sum what the payload names over all ranks; then call OnReduced.
    kApply,     // Apply the sums to what the payload names; then call OnApplied.
    kEnd,
  };
  enum class Fill { kUpdate, kGradient, kZeros };
  // What is summed, and the numbers that the sums are divided by; 0: it is not summed.
  struct Payload {
    int model = 0;           // The wire buffer.
    int state = 0;           // The optimizer's tensors,
    bool has_state = false;  // of which this rank adds its own, or zeros.
    // The wire buffer is summed in the lossy format, and the rest
    bool lossy = false;
    bool has_update = false;  // is taken off `sent` if this rank's update is there, else `ref`.
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
    bool stops_at_bad_update = true;  // If not, it is left out, and the rank takes z.
    // How many first steps of this rank are not typical.
    int64_t startup_steps = kStartupSteps;
    bool lossy_updates = false;  // For local modes.
  };

  // At the beginning x = z in all parts, and the state is the same on all ranks.
  SlipstreamRank(const Options& options, const RoundState& state, absl::Time now);

  // For the compute thread. `took` is without waits; `loss` is the step's, ignored if not finite.
  ComputeOrder NextCompute(absl::Time now);
  void OnCopied(absl::Duration took);
  void OnStepped(absl::Duration took, double loss);
  // `squared`: the square of the gradient's norm; not finite if any of its values is not.
  void OnGradient(double squared, absl::Duration took, double loss);
  void OnStopped(absl::Time now);

  // For the communication thread. `squared` is the update's, or 0 if there is none.
  CommOrder NextComm(absl::Time now);
  void OnHashed(uint64_t hash);
  std::vector<double> Numbers(absl::Time now);
  void OnExchanged(absl::Span<const double> sums, absl::Time now);
  void OnFilled(double squared);
  void OnReduced(absl::Time now);
  RoundOutcome OnApplied(absl::Time now);

  // From now on this rank votes for it. What is older than known is ignored.
  void Prepare(const SlipstreamPlan& plan);
  void OrderSave(int64_t number);
  void ReadyToLeave(int64_t generation);
  // This rank cannot go on. It makes no further step and sends nothing, and all ranks end with the
  // next header, be it that of a later generation. The first reason counts.
  void SetFault(const std::string& reason);

  // The step that the compute thread was ordered to make, if any, is not made. (In `pause` the rank
  // may then come to a round without a step: others of its group stand still for the round.)
  void DropStep();

  // The generation broke off, in a round that some may have finished, or was left. `theirs` is the
  // state of the most advanced member (rendezvous.h), with the new generation's number and ranks.
  // If this rank has missed something, its z has been replaced by that member's. No order is being
  // carried out except a wait, a stop, or a step of the compute thread. A rank that missed at most
  // the round that it was in keeps what it has not sent; others lose it.
  void Rejoin(int rank, const RoundState& theirs, absl::Time now);

  const RoundState& state() const { return state_; }
  // From the latest header.
  const RoundSums& sums() const { return sums_; }
  // The step of the schedule that determines the learning rate.
  int64_t schedule_step() const;
  // How often, in this generation, the ranks agreed to make steps updates; starting that way
  // counts, too. The same on all ranks that have finished the same round.
  int64_t update_periods() const { return update_periods_; }
  // The numbers (of three buffers) that pub, sent and ref have now. They change between orders.
  struct Buffers {
    int pub = 0;
    int sent = 1;
    int ref = 2;
  };
  const Buffers& buffers() const { return buffers_; }

  // Why all ranks ended; empty: they have not. Names the round and, if known, the ranks; each of
  // several ranks that cannot go on knows of itself.
  const std::string& fault() const { return fault_text_; }
  const std::vector<int>& fault_ranks() const { return fault_ranks_; }
  // Whether the reason is that the ranks' canonical models differ.
  bool models_differ() const { return models_differ_; }

  int64_t updates() const { return updates_; }            // Of x, by this rank,
  int64_t sent_updates() const { return sent_updates_; }  // in finished rounds,
  int64_t lost_updates() const { return lost_updates_; }  // and lost, being bad or left behind.
  // Rounds with work of this rank; and the sum over them of how many changes z was ahead of the
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
    kToReduce,  // it is filled,
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
  // In modes of gradients: whether it is known who takes part.
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
  // In `pause`: whether it has made a step since the last round, or could not, as its group waits.
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

  // Own work. Invariant: updates_ >= published_ >= finished_.
  Buffers buffers_;
  int64_t updates_ = 0;
  int64_t published_ = 0;          // How many of these are in pub,
  int64_t finished_ = 0;           // and in ref.
  int64_t updates_at_finish_ = 0;  // updates_ when the latest round finished.
  int64_t in_flight_ = 0;
  int64_t in_flight_version_ = 0;  // Version of the z that it is built on.
  bool has_sent_ = false;          // An update or a rest is in flight.
  bool pub_is_x_ = false;          // Except for updates that are not published.
  bool has_rest_ = false;          // Lossy sums have left a rest in x - ref.
  int64_t sent_updates_ = 0;
  int64_t lost_updates_ = 0;
  int64_t version_ = 0;           // Number of changes of z.
  int64_t ref_version_ = 0;       // That of the z that ref is built on,
  int64_t x_version_ = 0;         // of the z that x was last made from, in modes of gradients,
  int64_t gradient_version_ = 0;  // and of the z that the latest gradient was made with.
  int64_t update_periods_ = 0;
  absl::Time version_since_;  // When the latest round or stop ended.
  bool needs_reset_ = false;
  bool resets_optimizer_ = false;  // With the reset.

  // For the compute thread.
  bool computing_ = false;
  bool step_dropped_ = false;  // Since the latest step or round.
  int64_t steps_ = 0;          // All that were made.
  absl::Time step_began_;      // When the present gradient was begun.
  bool copying_ = false;
  ComputeOrder::Copy copy_ = ComputeOrder::Copy::kPublish;
  bool offered_ = false;  // A gradient that may be used, or waits for the round to finish.
  double squared_gradient_ = 0;
  struct Losses {
    double sum = 0;
    int64_t count = 0;
  };
  Losses losses_;           // From steps since the latest header.
  Losses reported_losses_;  // From headers since the latest decided round.
  LateGradients late_;
  int64_t used_gradients_ = 0;
  int64_t contributions_ = 0;
  int64_t stale_rounds_ = 0;
  RunningMedian step_;
  RunningMedian copies_;
  absl::Duration copies_in_round_;

  // For the communication thread.
  absl::Time next_at_;  // When the next round or poll is due.
  absl::Time round_began_;
  absl::Time reduce_began_;
  RunningMedian collective_;
  bool stretched_ = false;
  bool after_stop_ = false;  // No round has been made since a stop.
  std::optional<uint64_t> hash_;
  Quorum quorum_;
  RoundSums sums_;
  RoundState next_state_;  // Takes effect when the decided round has finished.
  RoundOutcome outcome_;
  CommOrder::Payload payload_;
  bool included_ = false;  // This rank's gradient is in the round.
  bool filled_ = false;
  double squared_update_ = 0;

  // What this rank sends in headers.
  bool excluded_ = false;  // A bad update or gradient has not been in a round's header yet;
  bool reported_excluded_ = false;  // it was in the latest header.
  bool fault_ = false;
  std::string fault_reason_;
  bool reported_ready_ = false;
  SlipstreamPlan newest_plan_;
  SlipstreamPlan reported_plan_;
  int64_t save_order_ = 0;
  int64_t next_generation_ = 0;
  std::string fault_text_;
  std::vector<int> fault_ranks_;
  bool models_differ_ = false;
};

}  // namespace paceline

#endif  // SLIPSTREAM_RANK_H_
