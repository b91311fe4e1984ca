#include "controller/core/identity/identities.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

absl::Time SecondAfter(absl::Time time) {
  const absl::Time floor = absl::FromUnixSeconds(absl::ToUnixSeconds(time));
  return floor + absl::Seconds(1);
}

}  // namespace

Identities::Changes Identities::AddToken(const std::string& digest, JoinToken token,
                                         absl::Time now) {
  Changes changes;
  for (auto at = tokens_.begin(); at != tokens_.end();) {
    const JoinToken& known = at->second;
    const bool replaced = known.request == token.request && known.used == absl::InfinitePast();
    const bool old = known.expires + kTokenMemory < now;
    if (replaced || old) {
      changes.delete_tokens.push_back(at->first);
      at = tokens_.erase(at);
    } else {
      at = std::next(at);
    }
  }
  tokens_[digest] = std::move(token);
  changes.store_tokens.push_back(digest);
  return changes;
}

Identities::JoinVerdict Identities::CheckJoin(const std::string& digest, const NodeName& node,
                                              const std::string& key, absl::Time now) const {
  const auto found = tokens_.find(digest);
  if (found == tokens_.end()) return JoinVerdict::kUnknown;
  const JoinToken& token = found->second;
  if (token.node != node) return JoinVerdict::kAnotherNode;
  const bool used = token.used != absl::InfinitePast();
  if (used && token.used_by != key) return JoinVerdict::kUsed;
  if (now >= token.expires) return JoinVerdict::kExpired;
  const auto revoked = revocations_.find(WorkerUri(node));
  if (revoked != revocations_.end() && now < revoked->second.before) {
    return JoinVerdict::kJustRevoked;
  }
  return used ? JoinVerdict::kAgain : JoinVerdict::kFine;
}

Identities::Changes Identities::UseToken(const std::string& digest, const std::string& key,
                                         absl::Time now) {
  JoinToken& token = tokens_.at(digest);
  token.used = now;
  token.used_by = key;
  return {{digest}, {}, {}};
}

Identities::Changes Identities::Revoke(const std::string& principal, const std::string& reason,
                                       const std::string& owner, absl::Time now) {
  Revocation& revocation = revocations_[principal];
  // A clock behind that of an earlier revocation must not undo it.
  revocation = {std::max(revocation.before, SecondAfter(now)), reason, owner};
  Changes changes;
  changes.store_revocations.push_back(principal);
  // Whoever holds one of the node's tokens could come back with it.
  for (auto at = tokens_.begin(); at != tokens_.end();) {
    if (WorkerUri(at->second.node) == principal) {
      changes.delete_tokens.push_back(at->first);
      at = tokens_.erase(at);
    } else {
      at = std::next(at);
    }
  }
  return changes;
}

const Revocation* Identities::Refuses(const std::string& principal, absl::Time issued) const {
  const auto found = revocations_.find(principal);
  return found != revocations_.end() && issued < found->second.before ? &found->second : nullptr;
}

std::string WorkerUri(const NodeName& node) {
  return absl::StrCat("paceline://worker/", node.value());
}

std::string JoinRefusalText(Identities::JoinVerdict verdict, const NodeName& node) {
  const std::string next = absl::StrCat("; `paceline pki token ", node.value(), "` makes one");
  switch (verdict) {
    case Identities::JoinVerdict::kUnknown:
      return absl::StrCat("there is no such join token", next);
    case Identities::JoinVerdict::kUsed:
      return absl::StrCat(
          "the join token has been used, by another key: if that was not this node, ",
          "revoke it with `paceline pki revoke worker/", node.value(), "`", next);
    case Identities::JoinVerdict::kExpired:
      return absl::StrCat("the join token has expired", next);
    case Identities::JoinVerdict::kAnotherNode:
      return absl::StrCat("the join token is for another node than ", node.value(), next);
    case Identities::JoinVerdict::kJustRevoked:
      return absl::StrCat("the certificates of ", node.value(),
                          " were revoked this very second: try again in the next");
    case Identities::JoinVerdict::kFine:
    case Identities::JoinVerdict::kAgain:
      return "";
  }
  return "";
}

}  // namespace paceline
