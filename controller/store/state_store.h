// Where the controller keeps what must survive it: an ordered map from keys to bytes, with
// transactions.
//
// Keys are "<kind>/<id>"; callers define the values (controller/store/records.h). A batch is
// durable when Commit returns OK, and exists completely or not at all. Implementations pass a
// common contract test, state_store_contract_test.cc.
//
// Thread-compatible: one thread at a time.
#ifndef CONTROLLER_STORE_STATE_STORE_H_
#define CONTROLLER_STORE_STATE_STORE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

// Changes that take effect together. A key may occur only in one of the two.
struct WriteBatch {
  std::map<std::string, std::string> puts;
  std::vector<std::string> deletes;  // Deleting an absent key is no error.

  bool empty() const { return puts.empty() && deletes.empty(); }
};

class StateStore {
 public:
  virtual ~StateStore() = default;

  // ResourceExhausted: no space left. Unavailable: any other failure of the medium. After an error
  // the batch may or may not exist: stop, and load again.
  virtual absl::Status Commit(const WriteBatch& batch) = 0;

  // Returns all entries whose key begins with `prefix`.
  virtual absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) = 0;

  // Size of the state on the medium, in bytes.
  virtual int64_t SizeBytes() = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_STORE_H_
