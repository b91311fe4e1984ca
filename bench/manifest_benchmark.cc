// What rank 0 does to complete a large checkpoint, but for reading and writing files: 512 ranks
// with a slice of each of 1,000 tensors.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/manifest.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr int kRanks = 512;
constexpr int kTensors = 1000;
constexpr int64_t kHeaderBytes = 1 << 20;
constexpr int64_t kExtent = 8;  // Rows or columns of a rank.
constexpr int64_t kOther = 512;
constexpr int64_t kSliceBytes = kExtent * kOther * 4;

TensorSlice Rows(int rank) {
  TensorSlice slice;
  slice.first_row = rank * kExtent;
  slice.rows = kExtent;
  return slice;
}

TensorSlice Columns(int rank) {
  TensorSlice slice;
  slice.rows = kOther;
  slice.box = {{0, rank * kExtent}, {kOther, kExtent}};
  return slice;
}

Manifest PartOf(int rank, TensorSlice (*slice_of)(int)) {
  Manifest part;
  part.job_id = "job-0123456789ab";
  part.ranks = kRanks;
  part.shards = kRanks;
  part.job_spec = "{}";
  part.files = {{ShardName(rank, kRanks), kHeaderBytes + kTensors * kSliceBytes}};
  for (int i = 0; i < kTensors; ++i) {
    TensorSlice slice = slice_of(rank);
    slice.file = part.files[0].name;
    slice.offset = kHeaderBytes + i * kSliceBytes;
    slice.bytes = kSliceBytes;
    slice.checksum = (static_cast<uint64_t>(rank) << 32) | static_cast<uint64_t>(i);
    const std::vector<int64_t> shape = slice.is_rows()
                                           ? std::vector<int64_t>{kRanks * kExtent, kOther}
                                           : std::vector<int64_t>{kOther, kRanks * kExtent};
    part.tensors.push_back(
        {absl::StrFormat("model/layers.%04d.weight", i), "F32", shape, {std::move(slice)}});
  }
  return part;
}

std::vector<Manifest> Parts(TensorSlice (*slice_of)(int)) {
  std::vector<Manifest> parts;
  for (int rank = 0; rank < kRanks; ++rank) parts.push_back(PartOf(rank, slice_of));
  return parts;
}

// Parsing the parts.
void BM_Parse(benchmark::State& state, TensorSlice (*slice_of)(int)) {
  std::vector<std::string> texts;
  for (const Manifest& part : Parts(slice_of)) texts.push_back(FormatManifest(part));
  for (auto _ : state) {
    for (const std::string& text : texts) {
      const absl::StatusOr<Manifest> part = ParseManifest(text);
      PACELINE_CHECK(part.ok()) << part.status();
    }
  }
}

// Merging them, with the check that each tensor is covered once.
void BM_Merge(benchmark::State& state, TensorSlice (*slice_of)(int)) {
  const std::vector<Manifest> parts = Parts(slice_of);
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<Manifest> copy = parts;
    state.ResumeTiming();
    const absl::StatusOr<Manifest> merged = MergeManifests(std::move(copy));
    PACELINE_CHECK(merged.ok()) << merged.status();
  }
}

// Writing the manifest's text.
void BM_Format(benchmark::State& state, TensorSlice (*slice_of)(int)) {
  const absl::StatusOr<Manifest> merged = MergeManifests(Parts(slice_of));
  PACELINE_CHECK(merged.ok()) << merged.status();
  size_t bytes = 0;
  for (auto _ : state) bytes = FormatManifest(*merged).size();
  PACELINE_CHECK(bytes <= kMaxManifestBytes) << bytes;
  state.counters["bytes"] = static_cast<double>(bytes);
}

BENCHMARK_CAPTURE(BM_Parse, rows, Rows)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Parse, columns, Columns)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Merge, rows, Rows)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Merge, columns, Columns)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Format, rows, Rows)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Format, columns, Columns)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
