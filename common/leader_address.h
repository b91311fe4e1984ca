// Chooses which of several controllers to try next: each in turn, but first the one that a standby
// has named as leader.
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

// A client of several controllers gives up one that is unreachable for this long. A controller
// answers within milliseconds; a frozen one keeps its connections, so only pings reveal it.
inline constexpr absl::Duration kLeaderPing = absl::Seconds(2);
inline constexpr absl::Duration kLeaderUnreachableAfter = absl::Seconds(2);  // After a ping.
// For one call or greeting that waits for an answer.
inline constexpr absl::Duration kLeaderAnswer = absl::Seconds(5);
// Greatest delay between attempts.
inline constexpr absl::Duration kLeaderRetry = absl::Milliseconds(500);

// Splits "a:7450,b:7450" and removes blanks and empty parts.
std::vector<std::string> SplitAddresses(absl::string_view list);

class LeaderAddress {
 public:
  // With no addresses, uses one empty address, where nobody answers. `plaintext`: connections are
  // not authenticated, so a named leader on another machine is ignored.
  explicit LeaderAddress(std::vector<std::string> addresses, bool plaintext = false);

  // The controller to try, or the one that answers.
  const std::string& current() const { return current_; }
  bool several() const { return addresses_.size() > 1; }

  // Reports that the current controller leads.
  void Answered() {
    named_in_vain_.clear();
    named_in_a_row_ = 0;
  }

  // Reports that the current controller does not lead or does not answer. `leader`: the one it
  // named; empty: none. True when the next address should be tried at once: it was named, and not
  // at the end of a longer chain of names.
  bool Failed(absl::string_view leader = "");

 private:
  const std::vector<std::string> addresses_;
  const bool plaintext_;
  size_t turn_ = 0;  // Index in the list.
  std::string current_;
  std::string named_in_vain_;  // Was named and failed; not believed twice in a row.
  int named_in_a_row_ = 0;     // Names in a row since one led or named nobody.
};

}  // namespace paceline

#endif  // COMMON_LEADER_ADDRESS_H_
