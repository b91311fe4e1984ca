// The value that a pickle makes. Nothing in it is executed: what is no dictionary, list, number,
// text or tensor of torch.save is a thing of its class.
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
  int64_t number = 0;  // kNumber; also false and true. 0 for one that is no integer of 64 bits.
  std::string text;    // kText; kGlobal: "module name"; kOther: the class, or what made it.
  // kTuple and kStorage; kDict: key, value, key, value, ... Shared with the memo: a dict is filled
  // after it is kept.
  std::vector<std::shared_ptr<PickleValue>> items;
  PickledTensor tensor;  // kTensor.
};

// A value with all that it refers to.
class Unpickled {
 public:
  // `memo`: the values that others may refer to.
  Unpickled(std::shared_ptr<PickleValue> top, std::vector<std::shared_ptr<PickleValue>> memo);
  Unpickled(Unpickled&&) = default;
  Unpickled& operator=(Unpickled&&) = delete;
  // A damaged pickle can put a dict into itself: such a circle would never be freed.
  ~Unpickled();

  const PickleValue& top() const { return *top_; }

 private:
  std::shared_ptr<PickleValue> top_;
  std::vector<std::shared_ptr<PickleValue>> memo_;
};

// DataLoss, with the offset, when torch.save does not write such a pickle.
absl::StatusOr<Unpickled> Unpickle(absl::string_view pickle);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_UNPICKLE_H_
