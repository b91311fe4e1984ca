#include "controller/rpc/identity_records.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "controller/rpc/convert.h"
#include "controller/store/record.pb.h"

namespace paceline {
namespace {

constexpr char kTokens[] = "token/";
constexpr char kRevocations[] = "revoked/";

std::string Encode(const JoinToken& token) {
  v1::JoinTokenRecord record;
  record.set_node(token.node.value());
  *record.mutable_create_time() = ToProto(token.created);
  *record.mutable_expire_time() = ToProto(token.expires);
  record.set_owner(token.owner);
  record.set_request_id(token.request);
  if (token.used != absl::InfinitePast()) *record.mutable_use_time() = ToProto(token.used);
  record.set_used_by(token.used_by);
  return record.SerializeAsString();
}

JoinToken Decode(const v1::JoinTokenRecord& record) {
  return {NodeName(record.node()),
          FromProto(record.create_time()),
          FromProto(record.expire_time()),
          record.owner(),
          record.request_id(),
          record.has_use_time() ? FromProto(record.use_time()) : absl::InfinitePast(),
          record.used_by()};
}

std::string Encode(const Revocation& revocation) {
  v1::RevocationRecord record;
  *record.mutable_before() = ToProto(revocation.before);
  record.set_reason(revocation.reason);
  record.set_owner(revocation.owner);
  return record.SerializeAsString();
}

Revocation Decode(const v1::RevocationRecord& record) {
  return {FromProto(record.before()), record.reason(), record.owner()};
}

// All records under `prefix`, by the rest of their keys.
template <typename Record, typename Value>
absl::Status Load(StateStore& store, const std::string& prefix,
                  std::map<std::string, Value>* values) {
  PACELINE_ASSIGN_OR_RETURN(const auto entries, store.Load(prefix));
  for (const auto& [key, text] : entries) {
    Record record;
    if (!record.ParseFromString(text)) {
      return absl::DataLossError(absl::StrCat("state store: the record ", key, " is damaged"));
    }
    (*values)[key.substr(prefix.size())] = Decode(record);
  }
  return absl::OkStatus();
}

}  // namespace

void Write(const Identities::Changes& changes, const Identities& identities, WriteBatch* batch) {
  for (const std::string& digest : changes.store_tokens) {
    batch->puts[kTokens + digest] = Encode(identities.tokens().at(digest));
  }
  for (const std::string& digest : changes.delete_tokens) {
    batch->deletes.push_back(kTokens + digest);
  }
  for (const std::string& principal : changes.store_revocations) {
    batch->puts[kRevocations + principal] = Encode(identities.revocations().at(principal));
  }
}

absl::StatusOr<Identities> LoadIdentities(StateStore& store) {
  Identities::Tokens tokens;
  Identities::Revocations revocations;
  PACELINE_RETURN_IF_ERROR(Load<v1::JoinTokenRecord>(store, kTokens, &tokens));
  PACELINE_RETURN_IF_ERROR(Load<v1::RevocationRecord>(store, kRevocations, &revocations));
  return Identities(std::move(tokens), std::move(revocations));
}

}  // namespace paceline
