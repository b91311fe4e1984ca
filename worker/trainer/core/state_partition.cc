#include "worker/trainer/core/state_partition.h"

#include <algorithm>

namespace paceline {
namespace {

// Ideal end of `rank`'s part, in bytes; cannot overflow.
int64_t IdealEnd(int64_t bytes, int rank, int ranks) {
  return bytes / ranks * (rank + 1) + bytes % ranks * (rank + 1) / ranks;
}

// Number of rows of a tensor starting at `start` that come before the cut at `ideal`.
int64_t RowsBefore(const RowLayout& tensor, int64_t start, int64_t ideal) {
  if (ideal <= start) return 0;
  const int64_t rows = (ideal - start + tensor.row_bytes - 1) / tensor.row_bytes;
  return std::min(rows, tensor.rows);
}

}  // namespace

std::vector<RowRange> PartOfRank(const std::vector<RowLayout>& tensors, int rank, int ranks) {
  int64_t bytes = 0;
  for (const RowLayout& tensor : tensors) bytes += tensor.rows * tensor.row_bytes;
  const int64_t begin = rank == 0 ? 0 : IdealEnd(bytes, rank - 1, ranks);
  const int64_t end = IdealEnd(bytes, rank, ranks);
  std::vector<RowRange> part;
  int64_t start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const RowLayout& tensor = tensors[i];
    if (tensor.rows * tensor.row_bytes == 0) {
      if (rank == 0) part.push_back({i, 0, tensor.rows});
      continue;
    }
    const int64_t first = RowsBefore(tensor, start, begin);
    const int64_t last = RowsBefore(tensor, start, end);
    if (last > first) part.push_back({i, first, last - first});
    start += tensor.rows * tensor.row_bytes;
  }
  return part;
}

}  // namespace paceline
