#include "worker/trainer/checkpoint/shard_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/status_macros.h"
#include "common/json/json_walk.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/shard_writer.h"

namespace paceline {
namespace {

constexpr size_t kMostAligned = 64;  // A cache line; JAX also needs it.

// The greatest power of two, at most 64, that divides the tensor's size in bytes.
size_t AlignmentKept(const at::Tensor& tensor) {
  size_t alignment = kMostAligned;
  while (tensor.nbytes() % alignment != 0) alignment /= 2;
  return alignment;
}

std::vector<size_t> OrderInFile(const std::vector<const ShardEntry*>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&entries](size_t a, size_t b) {
    return AlignmentKept(entries[a]->rows) > AlignmentKept(entries[b]->rows);
  });
  return order;
}

// Of an entry's first element in its tensor.
std::vector<int64_t> OffsetsOf(const ShardEntry& entry) {
  if (!entry.offsets.empty()) return entry.offsets;
  std::vector<int64_t> offsets(entry.shape.size(), 0);
  if (!offsets.empty()) offsets[0] = entry.first_row;
  return offsets;
}

// What torch 2.11 writes and reads as metadata of a shard (torch/distributed/checkpoint,
// hf_storage.py and _hf_utils.py).
std::map<std::string, std::string> ShardingMetadata(const std::vector<const ShardEntry*>& entries) {
  std::string offsets = "{";
  for (const ShardEntry* entry : entries) {
    absl::StrAppend(&offsets, offsets.size() > 1 ? "," : "", JsonQuoted(entry->name),
                    ":{\"saved_offsets\":[", absl::StrJoin(OffsetsOf(*entry), ","), "]}");
  }
  return {{"DCP_SHARDING_INFO", offsets + "}"}, {"DCP_VERSION", "1.0"}};
}

}  // namespace

absl::StatusOr<ShardLayout> LayOutShard(const std::string& file,
                                        const std::vector<const ShardEntry*>& entries) {
  ShardLayout layout;
  layout.order = OrderInFile(entries);
  std::vector<Safetensor> in_file;
  for (size_t index : layout.order) {
    const ShardEntry& entry = *entries[index];
    in_file.push_back(
        {entry.name, DtypeOfType(entry.rows.scalar_type()), entry.rows.sizes().vec(), {}});
  }
  PACELINE_ASSIGN_OR_RETURN(
      layout.header, SafetensorsHeader(in_file, kDirectAlignment, ShardingMetadata(entries)));
  layout.bytes = static_cast<int64_t>(layout.header.size());
  for (size_t index : layout.order) {
    const ShardEntry& entry = *entries[index];
    TensorSlice slice;
    slice.file = file;
    slice.first_row = entry.first_row;
    slice.rows = entry.rows.dim() == 0 ? 1 : entry.rows.size(0);
    slice.offset = layout.bytes;
    slice.bytes = static_cast<int64_t>(entry.rows.nbytes());
    if (!entry.offsets.empty()) slice.box = {entry.offsets, entry.rows.sizes().vec()};
    layout.bytes += slice.bytes;
    layout.tensors.push_back(
        {entry.name, DtypeOfType(entry.rows.scalar_type()), entry.shape, {std::move(slice)}});
  }
  return layout;
}

}  // namespace paceline
