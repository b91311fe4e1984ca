// What a trainer is to do about its memberships: the state machine of one process over the
// generations of its job.
//
//             OnLoaded           OnMeeting         OnMet
//   preparing ────────▶ stands by ────────▶ meeting ────▶ training
//                          ▲                   │             │
//                          └── waits ◀─────────┴─────────────┘
//                      OnFailed (an error, or told to leave); OnLeft (planned, all together)
//
// Orders (proto/plan.proto, Membership) may arrive at any moment, late, twice, or never; the newest
// generation counts. The caller tells what has happened, and asks after each event what to do; it
// may ask as often as it likes. A failure is of one generation: it is never met again, and a later
// one is waited for, up to `give_up`.
//
// Pure and thread-compatible; time is an argument.
#ifndef WORKER_TRAINER_CORE_MEMBERSHIP_H_
#define WORKER_TRAINER_CORE_MEMBERSHIP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace paceline {

// What counts of a Membership here.
struct MembershipOrder {
  int64_t generation = 0;
  int rank = -1;           // -1: none in this generation.
  bool has_store = false;  // It is known where to meet.
  bool planned = false;
};

class MembershipState {
 public:
  enum class Action {
    kWait,     // For another event.
    kMeet,     // The members of `generation`, which this is one of: OnMeeting, connect, get the
               // state, OnMet. Or go on with that.
    kTrain,    // Go on, or begin.
    kConnect,  // Go on, and connect the members of `generation` beside it; then OnConnected.
    kAgree,    // Go on, and agree with the members of the present generation on a step after which
               // all leave for `generation`; then OnLeft.
    kLeave,    // At once: the present generation, met or not, has been replaced. Then OnFailed.
    kGiveUp,   // It has waited too long, or may not wait: the process ends with the error.
  };
  struct Step {
    Action action = Action::kWait;
    int64_t generation = 0;  // Concerned.
  };

  // `recovers`: failures of collectives are waited out. Else each is a reason to give up.
  MembershipState(bool recovers, absl::Duration give_up) : recovers_(recovers), give_up_(give_up) {}

  // What was received. Older generations than known are ignored; of the same, what is new.
  void OnOrder(const MembershipOrder& order);
  // Model and data are loaded and the store is there: it may be told to meet.
  void OnLoaded() { loaded_ = true; }
  // Meeting the members of this generation begins.
  void OnMeeting(int64_t generation) { meeting_ = generation; }
  // All members of this generation have met, and this one has their state: it trains.
  void OnMet(int64_t generation);
  // The generation that it trains in or meets is over for it: a collective failed, or it left as it
  // was told to (`error` is empty).
  void OnFailed(const std::string& error, absl::Time now);
  // The members of the planned generation are connected; or could not be: it is not tried again.
  void OnConnected(int64_t generation);
  void OnConnectFailed(int64_t generation);
  // The present generation was left with all others, after the agreed step.
  void OnLeft(absl::Time now);

  Step Next(absl::Time now) const;

  // For MembershipStatus.
  int64_t trained_generation() const { return trained_; }
  bool waiting() const { return waiting_since_.has_value(); }
  const std::string& error() const { return error_; }
  int64_t ready_generation() const { return connected_; }
  int64_t left_generation() const { return over_; }
  // When Next becomes kGiveUp by itself.
  absl::Time give_up_at() const;

  // The newest order, and the generation that it trains in or meets; 0: none.
  const MembershipOrder& order() const { return order_; }
  int64_t present() const { return present_ != 0 ? present_ : meeting_; }

 private:
  const bool recovers_;
  const absl::Duration give_up_;
  MembershipOrder order_;
  bool loaded_ = false;
  int64_t present_ = 0;        // Trained in now; 0: none.
  int64_t meeting_ = 0;        // Being met now; 0: none.
  int64_t trained_ = 0;        // Newest that was trained in.
  int64_t over_ = 0;           // This generation and those before are never met (again).
  int64_t connected_ = 0;      // Newest planned one that is connected,
  int64_t unconnectable_ = 0;  // and that could not be.
  std::optional<absl::Time> waiting_since_;  // Has left a generation, and is in none.
  bool gave_up_ = false;
  std::string error_;  // Why it left the latest; empty: it was told to.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MEMBERSHIP_H_
