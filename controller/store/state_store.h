// Where the controller keeps what must survive it: an ordered map from keys to bytes, and
// transactions over it.
//
// Keys are "<kind>/<id>"; what the values mean is decided above (controller/store/records.h).
// A committed batch is durable when Commit returns OK and exists wholly or not at all.
// Implementations pass the one contract test, state_store_contract_test.cc.
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

// Changes that take effect together. A key occurs in one of the two at most.
struct WriteBatch {
  std::map<std::string, std::string> puts;
  std::vector<std::string> deletes;  // Deleting an absent key is no error.

  bool empty() const { return puts.empty() && deletes.empty(); }
};

class StateStore {
 public:
  virtual ~StateStore() = default;

  // ResourceExhausted: no space left. Unavailable: any other failure of the medium. After
  // an error the batch may or may not exist: stop, and load again.
  virtual absl::Status Commit(const WriteBatch& batch) = 0;

  // All entries whose key begins with `prefix`.
  virtual absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) = 0;

  // Bytes that the state takes on the medium.
  virtual int64_t SizeBytes() = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_STORE_H_
