// Names in a checkpoint of tensors that each rank, or each replica, has for itself.
#ifndef WORKER_TRAINER_CHECKPOINT_OWN_NAME_H_
#define WORKER_TRAINER_CHECKPOINT_OWN_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr absl::string_view kRank = "rank";
inline constexpr absl::string_view kReplica = "replica";

// The first one's has the plain name.
inline std::string OwnName(const std::string& name, int64_t index, absl::string_view of = kRank) {
  return index == 0 ? name : absl::StrCat(of, index, "/", name);
}

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_OWN_NAME_H_
