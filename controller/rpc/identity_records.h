// What is stored of join tokens and revocations, and back.
//
//   token/<SHA-256 of the secret>  v1::JoinTokenRecord
//   revoked/<principal's URI>      v1::RevocationRecord
#ifndef CONTROLLER_RPC_IDENTITY_RECORDS_H_
#define CONTROLLER_RPC_IDENTITY_RECORDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/core/identities.h"
#include "controller/store/state_store.h"

namespace paceline {

// Puts the changes, which `identities` has made, into the batch.
void Write(const Identities::Changes& changes, const Identities& identities, WriteBatch* batch);

// Everything of them that a store holds. DataLoss, naming the key, when a record cannot be read.
absl::StatusOr<Identities> LoadIdentities(StateStore& store);

}  // namespace paceline

#endif  // CONTROLLER_RPC_IDENTITY_RECORDS_H_
