#include "common/checkpoint/checkpoint_paths.h"

#include "absl/strings/str_format.h"

namespace paceline {

std::string ShardName(int rank, int ranks) {
  return absl::StrFormat("shard-%05d-of-%05d.safetensors", rank, ranks);
}

std::string PartName(int rank) { return absl::StrFormat("part-%05d.json", rank); }

}  // namespace paceline
