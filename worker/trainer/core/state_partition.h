// Which rank writes which part of the state that all ranks have in common.
//
// The tensors, one after the other, are cut into one stretch for each rank, as equal in bytes as
// whole rows allow: a cut lies at the end of the row in which the ideal place falls. So each rank
// writes about 1/W of all bytes in few, long pieces, and every rank knows all cuts without a word.
#ifndef WORKER_TRAINER_CORE_STATE_PARTITION_H_
#define WORKER_TRAINER_CORE_STATE_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// A tensor as rows of equal size along its first dimension; one without dimensions is one row.
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

// What `rank` of `ranks` writes, in order. A tensor without bytes is rank 0's. The parts of all
// ranks are disjoint and hold every row.
std::vector<RowRange> PartOfRank(const std::vector<RowLayout>& tensors, int rank, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_STATE_PARTITION_H_
