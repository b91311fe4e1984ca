#include "worker/daemon/core/standby_answers.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr size_t kLeast = 2;  // Controllers needed; see the end of the header's comment.

}  // namespace

StandbyAnswers::StandbyAnswers(const std::vector<std::string>& controllers) {
  for (const std::string& address : controllers) asked_[address] = absl::InfinitePast();
}

void StandbyAnswers::NobodyLeads(const std::string& address, absl::Time sent) {
  const auto found = asked_.find(address);
  if (found != asked_.end()) found->second = std::max(found->second, sent);
}

bool StandbyAnswers::Named(const std::string& leader) {
  if (!unlisted_.empty() || asked_.count(leader) > 0) return false;
  unlisted_ = leader;
  return true;
}

absl::Time StandbyAnswers::LeadsSince() const {
  if (asked_.size() < kLeast || !unlisted_.empty()) return absl::InfinitePast();
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [address, sent] : asked_) since = std::min(since, sent);
  return since;
}

std::vector<std::string> StandbyAnswers::MayLead(absl::Time since) const {
  std::vector<std::string> controllers;
  for (const auto& [address, sent] : asked_) {
    if (sent <= since || asked_.size() < kLeast) controllers.push_back(address);
  }
  if (!unlisted_.empty()) controllers.push_back(unlisted_);
  return controllers;
}

}  // namespace paceline
