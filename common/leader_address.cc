#include "common/leader_address.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/core/loopback.h"

namespace paceline {
namespace {

// Limit on names followed in a row without delay: one more would come from two controllers that
// name each other.
constexpr int kNamedInARow = 2;

}  // namespace

std::vector<std::string> SplitAddresses(absl::string_view list) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    addresses.emplace_back(absl::StripAsciiWhitespace(part));
  }
  return addresses;
}

LeaderAddress::LeaderAddress(std::vector<std::string> addresses, bool plaintext)
    : addresses_(addresses.empty() ? std::vector<std::string>{""} : std::move(addresses)),
      plaintext_(plaintext),
      current_(addresses_.front()) {}

bool LeaderAddress::Failed(absl::string_view leader) {
  if (plaintext_ && !IsLoopback(leader)) leader = "";
  if (!leader.empty() && leader != current_ && leader != named_in_vain_) {
    current_ = std::string(leader);
    named_in_vain_ = current_;
    return ++named_in_a_row_ <= kNamedInARow;
  }
  named_in_a_row_ = 0;
  // Whether or not the named one was in the list, the turn continues from where it was.
  turn_ = (turn_ + 1) % addresses_.size();
  if (addresses_[turn_] == current_) turn_ = (turn_ + 1) % addresses_.size();
  current_ = addresses_[turn_];
  if (leader.empty()) named_in_vain_.clear();
  return false;
}

}  // namespace paceline
