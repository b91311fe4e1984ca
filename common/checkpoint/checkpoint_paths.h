// Names in a job's checkpoint directory, <checkpoint.directory>/<job id>/:
//
//   lock                               held by the job's rank 0 while it trains
//   final.safetensors                  the weights after the last step
//   samples/                           the ledger of samples, if the job keeps one
//     generation-2.rank-0.runs         of each process, named by its first generation and rank
//   step-000000000120.g2/              a checkpoint after 120 steps, by generation 2
//     manifest.json                    written last: without it there is no checkpoint
//     shard-00000-of-00004.safetensors one for each rank
//     part-00000.json                  the rank's slices, until they are in the manifest
//   removed-step-...                   a checkpoint that is being removed
//   diverged-round-000000000352.g2/    each rank's state with slipstream when the canonical models
//                                      were found to differ: no checkpoint, and kept until a person
//                                      removes it
//     shard-00000-of-00004.safetensors one for each rank
//
// Names sort by step, or round.
#ifndef COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_
#define COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_

#include <cstdint>
#include <string>

#include "common/core/checkpoint_key.h"

namespace paceline {

inline constexpr char kManifestName[] = "manifest.json";

std::string ShardName(int rank, int ranks);
std::string PartName(int rank);
std::string DivergedName(int64_t round, int64_t generation);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_
