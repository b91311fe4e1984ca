#include "common/checkpoint/checkpoint_paths.h"

#include "absl/strings/str_format.h"

namespace paceline {

std::string ShardName(int rank, int ranks) {
  return absl::StrFormat("shard-%05d-of-%05d.safetensors", rank, ranks);
}

std::string PartName(int rank) { return absl::StrFormat("part-%05d.json", rank); }

std::string DivergedName(int64_t round, int64_t generation) {
  return absl::StrFormat("diverged-round-%012d.g%d", round, generation);
}

}  // namespace paceline
