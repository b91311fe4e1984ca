// Identifies a checkpoint within its job and names its directory: step-000000000120.g2 has the
// state after 120 steps, saved by generation 2. Names sort by step.
#ifndef COMMON_CORE_CHECKPOINT_KEY_H_
#define COMMON_CORE_CHECKPOINT_KEY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

struct CheckpointKey {
  int64_t step = 0;  // Steps completed.
  int64_t generation = 0;

  friend bool operator==(const CheckpointKey& a, const CheckpointKey& b) {
    return a.step == b.step && a.generation == b.generation;
  }
  friend bool operator<(const CheckpointKey& a, const CheckpointKey& b) {
    return a.step != b.step ? a.step < b.step : a.generation < b.generation;
  }
};

std::string CheckpointName(const CheckpointKey& key);
// Parses a directory's name without its path; nothing for any other name.
std::optional<CheckpointKey> ParseCheckpointName(absl::string_view name);

}  // namespace paceline

#endif  // COMMON_CORE_CHECKPOINT_KEY_H_
