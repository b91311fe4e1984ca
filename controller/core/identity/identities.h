// Join tokens and revocations: which nodes may still join, and whose certificates are refused.
//
//   token:      made ──▶ used by a key ──▶ forgotten, a day after its end
//                 └────▶ ended ──────────────┘
//
// Tokens are known by the SHA-256 of their secret, keys by the SHA-256 of the public key, and
// principals by their URI.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_IDENTITY_IDENTITIES_H_
#define CONTROLLER_CORE_IDENTITY_IDENTITIES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

// How long a token is kept after its end, so that a latecomer is told the reason.
inline constexpr absl::Duration kTokenMemory = absl::Hours(24);
inline constexpr absl::Duration kUsualTokenLife = absl::Hours(1);
inline constexpr absl::Duration kLongestTokenLife = absl::Hours(24 * 7);

struct JoinToken {
  NodeName node;
  absl::Time created;
  absl::Time expires;
  std::string owner = {};
  std::string request = {};                // Id of the request that made the token.
  absl::Time used = absl::InfinitePast();  // InfinitePast(): not used.
  std::string used_by = {};                // The key that used it.
};

struct Revocation {
  absl::Time before;  // Whole seconds, as are the times of certificates.
  std::string reason;
  std::string owner;
};

class Identities {
 public:
  // Tokens by digest, revocations by principal.
  using Tokens = std::map<std::string, JoinToken>;
  using Revocations = std::map<std::string, Revocation>;

  // What has to be stored and removed.
  struct Changes {
    std::vector<std::string> store_tokens = {};
    std::vector<std::string> delete_tokens = {};
    std::vector<std::string> store_revocations = {};
  };

  enum class JoinVerdict { kFine, kAgain, kUnknown, kUsed, kExpired, kAnotherNode, kJustRevoked };

  Identities() = default;
  Identities(Tokens tokens, Revocations revocations)
      : tokens_(std::move(tokens)), revocations_(std::move(revocations)) {}

  // Adds a token; it replaces an unused one that the same request made. Forgets old tokens.
  Changes AddToken(const std::string& digest, JoinToken token, absl::Time now);

  // Whether a node that shows the token gets a certificate for this key. kAgain: it already got one
  // for the same key. kJustRevoked: its certificate would be refused now, but not a second later.
  JoinVerdict CheckJoin(const std::string& digest, const NodeName& node, const std::string& key,
                        absl::Time now) const;

  // Requires: CheckJoin says kFine or kAgain.
  Changes UseToken(const std::string& digest, const std::string& key, absl::Time now);

  // Refuses certificates issued up to now, and deletes the tokens if the principal is a node.
  Changes Revoke(const std::string& principal, const std::string& reason, const std::string& owner,
                 absl::Time now);

  // Null: a certificate of the principal, issued then, is accepted. Valid until the next Revoke.
  const Revocation* Refuses(const std::string& principal, absl::Time issued) const;

  const Tokens& tokens() const { return tokens_; }
  const Revocations& revocations() const { return revocations_; }

 private:
  Tokens tokens_;
  Revocations revocations_;
};

// "paceline://worker/NODE"
std::string WorkerUri(const NodeName& node);

// "the token has expired on ...": the refusal for people, without the secret.
std::string JoinRefusalText(Identities::JoinVerdict verdict, const NodeName& node);

}  // namespace paceline

#endif  // CONTROLLER_CORE_IDENTITY_IDENTITIES_H_
