// Decides which rank writes which part of the state that all ranks share.
//
// The tensors, one after the other, are cut into one stretch per rank, equal in bytes as far as
// whole rows allow: a cut is at the end of the row that holds the ideal place. So each rank writes
// about 1/W of all bytes in few, long pieces, and knows all cuts without communication.
#ifndef WORKER_TRAINER_CORE_STATE_PARTITION_H_
#define WORKER_TRAINER_CORE_STATE_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// A tensor as rows of equal size along its first dimension; a scalar is one row.
struct RowLayout {
  int64_t rows = 0;
  int64_t row_bytes = 0;
};

// Consecutive rows of one tensor.
struct RowRange {
  size_t tensor = 0;  // Index.
  int64_t first_row = 0;
  int64_t rows = 0;

  friend bool operator==(const RowRange& a, const RowRange& b) {
    return a.tensor == b.tensor && a.first_row == b.first_row && a.rows == b.rows;
  }
};

// The rows that `rank` of `ranks` writes, in order. Rank 0 writes tensors without bytes. The parts
// of all ranks are disjoint and cover every row.
std::vector<RowRange> PartOfRank(const std::vector<RowLayout>& tensors, int rank, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_STATE_PARTITION_H_
