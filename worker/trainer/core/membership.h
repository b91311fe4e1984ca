// Decides what a trainer does about its memberships: the state machine of one process through the
// generations of its job.
//
//             OnLoaded           OnRendezvous           OnRendezvousDone
//   preparing ────────▶ stands by ────────▶ rendezvous ────▶ training
//                          ▲                   │                │
//                          └── waits ◀─────────┴────────────────┘
//                      OnFailed (an error, or told to leave); OnLeft (planned, all together)
//
// Orders (proto/plan.proto, Membership) may arrive at any moment: late, twice, or never. The newest
// generation counts. The caller reports events and asks after each one, or at any time, what to do.
// A failure concerns one generation: it is never met again; the trainer waits for a later one, for
// at most `give_up`.
//
// Pure and thread-compatible; time is an argument.
#ifndef WORKER_TRAINER_CORE_MEMBERSHIP_H_
#define WORKER_TRAINER_CORE_MEMBERSHIP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace paceline {

// The parts of a Membership that matter here.
struct MembershipOrder {
  int64_t generation = 0;
  int rank = -1;           // -1: none in this generation.
  bool has_store = false;  // The address to meet at is known.
  bool planned = false;
  bool hands_over = false;  // With rank -1: it hands its state over to the one that takes its rank.
};

class MembershipState {
 public:
  enum class Action {
    kWait,        // Wait for another event.
    kRendezvous,  // Meet the members of `generation`, or go on rendezvous: call OnRendezvous,
                  // connect, get the state, call OnRendezvousDone.
    kTrain,       // Begin or continue to train.
    kConnect,  // Train, and connect the members of `generation` meanwhile, or who gets the state;
               // then call OnConnected.
    kAgree,    // Train, and agree with the present generation's members on a step after which all
               // leave for `generation`; then call OnLeft.
    kLeave,    // Leave the present generation at once: it was replaced. Then call OnFailed.
    kGiveUp,   // It has waited too long, or may not wait: end the process with the error.
  };
  struct Step {
    Action action = Action::kWait;
    int64_t generation = 0;  // To which the action applies.
  };

  // `recovers`: wait for a new generation after a failed collective; otherwise give up.
  MembershipState(bool recovers, absl::Duration give_up) : recovers_(recovers), give_up_(give_up) {}

  // Takes an order. Ignores generations older than the newest; updates the same one.
  void OnOrder(const MembershipOrder& order);
  // Model and data are loaded and the store is up: the trainer can meet others.
  void OnLoaded() { loaded_ = true; }
  // The trainer begins to meet the members of this generation.
  void OnRendezvous(int64_t generation) { rendezvous_ = generation; }
  // All members of this generation have met and this one has their state: it trains.
  void OnRendezvousDone(int64_t generation);
  // The trainer's part in its generation, met or not, is over: a collective failed (`error`), or it
  // left as ordered (`error` is empty).
  void OnFailed(const std::string& error, absl::Time now);
  // It had begun to replace its state by another one, and has not got the whole of that.
  void OnStateLost() { trained_ = 0; }
  // The planned generation's members are connected; OnConnectFailed: they cannot be; no retry.
  void OnConnected(int64_t generation);
  void OnConnectFailed(int64_t generation);
  // All members have left the present generation after the agreed step.
  void OnLeft(absl::Time now);

  Step Next(absl::Time now) const;

  // Figures for MembershipStatus.
  int64_t trained_generation() const { return trained_; }
  bool waiting() const { return waiting_since_.has_value(); }
  const std::string& error() const { return error_; }
  int64_t ready_generation() const { return connected_; }
  int64_t left_generation() const { return over_; }
  // When Next() will become kGiveUp without another event.
  absl::Time give_up_at() const;

  // The newest order. present(): the generation it trains in or meets; 0: none.
  const MembershipOrder& order() const { return order_; }
  int64_t present() const { return present_ != 0 ? present_ : rendezvous_; }

 private:
  const bool recovers_;
  const absl::Duration give_up_;
  MembershipOrder order_;
  bool loaded_ = false;
  int64_t present_ = 0;        // The one it trains in; 0: none.
  int64_t rendezvous_ = 0;     // The one it is rendezvous; 0: none.
  int64_t trained_ = 0;        // The newest it has trained in; 0: none, or it has lost its state.
  int64_t over_ = 0;           // It never meets this generation or earlier ones again.
  int64_t connected_ = 0;      // Newest planned generation that is connected.
  int64_t unconnectable_ = 0;  // Newest one that could not be connected.
  std::optional<absl::Time> waiting_since_;  // Set when it has left one and is in none.
  bool gave_up_ = false;
  std::string error_;  // Why it left the latest one; empty: as ordered.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MEMBERSHIP_H_
