// Which of several controllers to try next: each in turn, but first the one that a standby has
// named as the leader.
//
// Thread-compatible.
#ifndef COMMON_LEADER_ADDRESS_H_
#define COMMON_LEADER_ADDRESS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// Who knows several controllers leaves one that is silent for so long for the next. A controller
// answers within milliseconds; one that is frozen keeps its connections, so that only pings tell.
inline constexpr absl::Duration kLeaderPing = absl::Seconds(2);
inline constexpr absl::Duration kLeaderSilence = absl::Seconds(2);  // After a ping.
// Of one call or greeting that waits for an answer.
inline constexpr absl::Duration kLeaderAnswer = absl::Seconds(5);
// Greatest delay between two attempts.
inline constexpr absl::Duration kLeaderRetry = absl::Milliseconds(500);

// "a:7450,b:7450": its parts, without blanks around them and without empty ones.
std::vector<std::string> SplitAddresses(absl::string_view list);

class LeaderAddress {
 public:
  // Without any: one that is empty, where nobody answers. `plaintext`: calls prove and hide
  // nothing, so a leader on another machine counts as not named.
  explicit LeaderAddress(std::vector<std::string> addresses, bool plaintext = false);

  // Of the controller to try, or that answers.
  const std::string& current() const { return current_; }
  bool several() const { return addresses_.size() > 1; }

  // The current one leads.
  void Answered() {
    named_in_vain_.clear();
    named_in_a_row_ = 0;
  }

  // The current one does not lead, or does not answer. `leader`: whom it named; empty: nobody.
  // True when the next one is worth an attempt at once: it was named, and not by one that was
  // named itself, again and again.
  bool Failed(absl::string_view leader = "");

 private:
  const std::vector<std::string> addresses_;
  const bool plaintext_;
  size_t turn_ = 0;  // Of the list.
  std::string current_;
  std::string named_in_vain_;  // Was named, and failed: it is not believed twice in a row.
  int named_in_a_row_ = 0;     // How often somebody was, since one led or named nobody.
};

}  // namespace paceline

#endif  // COMMON_LEADER_ADDRESS_H_
