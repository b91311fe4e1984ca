// How long a leader may act: until its lease may have run out, judged by its own clock alone.
//
// A lease counts from when the renewal was sent, not from when it was answered, so it never lasts
// longer here than where it was granted. A tenth is left out for clocks that run at another rate.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_LEADER_LEASE_H_
#define CONTROLLER_CORE_LEADER_LEASE_H_

#include "absl/time/time.h"

namespace paceline {

class LeaderLease {
 public:
  // A lease of `length`, asked for at `sent`, was granted.
  LeaderLease(absl::Time sent, absl::Duration length) { Renewed(sent, length); }

  // A renewal was granted. One that was sent before the newest changes nothing.
  void Renewed(absl::Time sent, absl::Duration length);

  bool MayAct(absl::Time now) const { return now < end_; }
  // When acting must stop.
  absl::Time end() const { return end_; }

  // When the next renewal is due, so that two may fail.
  absl::Time NextRenewal() const { return sent_ + length_ / 3; }
  // How long one attempt at a renewal may take, so that there is time for others.
  absl::Duration Attempt() const { return length_ / 4; }

 private:
  static constexpr double kCounted = 0.9;  // Share of a lease.

  absl::Time sent_ = absl::InfinitePast();
  absl::Duration length_;
  absl::Time end_ = absl::InfinitePast();
};

inline void LeaderLease::Renewed(absl::Time sent, absl::Duration length) {
  if (sent <= sent_) return;
  sent_ = sent;
  length_ = length;
  end_ = sent + length * kCounted;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_LEADER_LEASE_H_
