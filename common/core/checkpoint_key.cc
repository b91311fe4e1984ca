#include "common/core/checkpoint_key.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace paceline {

std::string CheckpointName(const CheckpointKey& key) {
  return absl::StrFormat("step-%012d.g%d", key.step, key.generation);
}

std::optional<CheckpointKey> ParseCheckpointName(absl::string_view name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "step-")) return std::nullopt;
  const size_t dot = rest.find(".g");
  if (dot == absl::string_view::npos) return std::nullopt;
  CheckpointKey key;
  if (!absl::SimpleAtoi(rest.substr(0, dot), &key.step) ||
      !absl::SimpleAtoi(rest.substr(dot + 2), &key.generation)) {
    return std::nullopt;
  }
  // A number can be written in several ways, but a checkpoint has only one name.
  if (key.step < 0 || key.generation < 1 || CheckpointName(key) != name) return std::nullopt;
  return key;
}

}  // namespace paceline
