// Which rows of a tensor a rank holds, if several hold one copy together.
//
// Rows are divided as FSDP2's Shard(0) does it (torch.chunk): in chunks of ceil(rows / shards), of
// which the last ones may be shorter or empty. So checkpoints are alike.
#ifndef WORKER_TRAINER_CORE_ROW_SHARD_H_
#define WORKER_TRAINER_CORE_ROW_SHARD_H_

#include <algorithm>
#include <cstdint>

namespace paceline {

struct RowShard {
  int64_t begin = 0;
  int64_t count = 0;
};

// Rows of the largest chunk, to which the others are padded where all must be of one size.
// Requires: shards >= 1.
inline int64_t RowsPerShard(int64_t rows, int64_t shards) { return (rows + shards - 1) / shards; }

// The rows of `position`, from 0 to shards - 1.
inline RowShard RowsOf(int64_t rows, int64_t shards, int64_t position) {
  const int64_t chunk = RowsPerShard(rows, shards);
  const int64_t begin = std::min(rows, position * chunk);
  return {begin, std::min(chunk, rows - begin)};
}

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_ROW_SHARD_H_
