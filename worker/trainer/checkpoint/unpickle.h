// The value in a pickle. Nothing in it is executed: anything but dictionaries, lists, numbers,
// texts and tensors of torch.save becomes an opaque object of its class.
#ifndef WORKER_TRAINER_CHECKPOINT_UNPICKLE_H_
#define WORKER_TRAINER_CHECKPOINT_UNPICKLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/checkpoint/state_dict_pickle.h"

namespace paceline {

struct PickleValue {
  enum class Kind {
    kMark,
    kNone,
    kNumber,
    kText,
    kGlobal,
    kTuple,
    kList,
    kDict,
    kStorage,
    kTensor,
    kOther
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // kNumber; also booleans. 0 if it does not fit into 64 bits.
  std::string text;    // kText; kGlobal: "module name"; kOther: the class, or what made it.
  // For kTuple and kStorage; for kDict: key, value, key, value, ... Shared with the memo, since a
  // dict is filled after it was memoized.
  std::vector<std::shared_ptr<PickleValue>> items;
  PickledTensor tensor;  // For kTensor.
};

// Owns a value and everything it refers to.
class Unpickled {
 public:
  // `memo`: values that others may refer to.
  Unpickled(std::shared_ptr<PickleValue> top, std::vector<std::shared_ptr<PickleValue>> memo);
  Unpickled(Unpickled&&) = default;
  Unpickled& operator=(Unpickled&&) = delete;
  // Also frees cycles: a damaged pickle can put a dict into itself.
  ~Unpickled();

  const PickleValue& top() const { return *top_; }

 private:
  std::shared_ptr<PickleValue> top_;
  std::vector<std::shared_ptr<PickleValue>> memo_;
};

// DataLoss, with the offset, when torch.save would not write such a pickle.
absl::StatusOr<Unpickled> Unpickle(absl::string_view pickle);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_UNPICKLE_H_
