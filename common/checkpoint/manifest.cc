#include "common/checkpoint/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/json/json_walk.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

std::string Format(const TensorSlice& slice) {
  return absl::StrCat("{\"file\": ", JsonQuoted(slice.file), ", \"rows\": [", slice.first_row, ", ",
                      slice.rows, "], \"offset\": ", slice.offset, ", \"bytes\": ", slice.bytes,
                      ", \"checksum\": \"", ChecksumText(slice.checksum), "\"}");
}

std::string Format(const ManifestTensor& tensor) {
  std::string text =
      absl::StrCat(JsonQuoted(tensor.name), ": {\"dtype\": ", JsonQuoted(tensor.dtype),
                   ", \"shape\": [", absl::StrJoin(tensor.shape, ", "), "], \"slices\": [");
  for (const TensorSlice& slice : tensor.slices) {
    absl::StrAppend(&text, &slice == &tensor.slices.front() ? "" : ",", "\n    ", Format(slice));
  }
  return text + "]}";
}

std::string Format(const ManifestFile& file) {
  return absl::StrCat("{\"name\": ", JsonQuoted(file.name), ", \"bytes\": ", file.bytes, "}");
}

// Writes each item on its own line.
template <typename Items>
std::string FormatLines(const Items& items) {
  return absl::StrJoin(items, ",", [](std::string* text, const auto& item) {
    absl::StrAppend(text, "\n  ", Format(item));
  });
}

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(what); }

// Number of rows that a tensor's slices must cover.
int64_t RowsOf(const ManifestTensor& tensor) { return tensor.shape.empty() ? 1 : tensor.shape[0]; }

// Two parts of one checkpoint must agree: names the first field in which they do not.
absl::Status CheckSame(const Manifest& a, const Manifest& b) {
  const auto differ = [](absl::string_view field, const auto& left, const auto& right) {
    return Damaged(absl::StrCat("two parts differ in ", field, ": ", left, " and ", right));
  };
  if (a.job_id != b.job_id) return differ("job_id", a.job_id, b.job_id);
  if (a.generation != b.generation) return differ("generation", a.generation, b.generation);
  if (a.step != b.step) return differ("step", a.step, b.step);
  if (a.ranks != b.ranks) return differ("ranks", a.ranks, b.ranks);
  if (a.plan_epoch != b.plan_epoch) return differ("plan_epoch", a.plan_epoch, b.plan_epoch);
  if (a.ladder != b.ladder) return differ("ladder", a.ladder, b.ladder);
  if (a.data_epoch != b.data_epoch) return differ("data.epoch", a.data_epoch, b.data_epoch);
  if (a.data_offset != b.data_offset) return differ("data.offset", a.data_offset, b.data_offset);
  if (a.job_spec != b.job_spec) return differ("job_spec", a.job_spec, b.job_spec);
  return absl::OkStatus();
}

template <typename Item>
bool ByName(const Item& a, const Item& b) {
  return a.name < b.name;
}

// Merges entries of the same tensor into one with all slices; sorts tensors by name.
absl::Status JoinTensors(std::vector<ManifestTensor>& tensors) {
  std::vector<ManifestTensor> joined;
  for (ManifestTensor& tensor : tensors) {
    if (joined.empty() || joined.back().name != tensor.name) {
      joined.push_back(std::move(tensor));
      continue;
    }
    ManifestTensor& first = joined.back();
    if (first.dtype != tensor.dtype || first.shape != tensor.shape) {
      return Damaged(absl::StrCat("tensor \"", tensor.name, "\": ", first.dtype, " [",
                                  absl::StrJoin(first.shape, ", "), "] in one part and ",
                                  tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "),
                                  "] in another"));
    }
    first.slices.insert(first.slices.end(), tensor.slices.begin(), tensor.slices.end());
  }
  tensors = std::move(joined);
  for (ManifestTensor& tensor : tensors) {
    std::sort(tensor.slices.begin(), tensor.slices.end(),
              [](const TensorSlice& a, const TensorSlice& b) { return a.first_row < b.first_row; });
  }
  return absl::OkStatus();
}

}  // namespace

int64_t RowBytes(const ManifestTensor& tensor) {
  int64_t bytes = SafetensorsElementBytes(tensor.dtype);
  for (size_t dimension = 1; dimension < tensor.shape.size(); ++dimension) {
    const int64_t extent = tensor.shape[dimension];
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  }
  return bytes;
}

int64_t TensorBytes(const ManifestTensor& tensor) {
  int64_t bytes = RowBytes(tensor);
  const int64_t rows = RowsOf(tensor);
  if (bytes < 0 || rows < 0 || __builtin_mul_overflow(bytes, rows, &bytes)) return -1;
  return bytes;
}

std::string FormatManifest(const Manifest& manifest) {
  const std::string spec = CompactJson(manifest.job_spec).value_or("");
  const std::string body = absl::StrCat(
      "\"format_version\": ", manifest.version,
      ",\n\"paceline_version\": ", JsonQuoted(manifest.paceline_version),
      ",\n\"torch_version\": ", JsonQuoted(manifest.torch_version),
      ",\n\"created\": ", manifest.created, ",\n\"job_id\": ", JsonQuoted(manifest.job_id),
      ",\n\"generation\": ", manifest.generation, ",\n\"step\": ", manifest.step,
      ",\n\"ranks\": ", manifest.ranks, ",\n\"plan_epoch\": ", manifest.plan_epoch,
      ",\n\"ladder\": ", JsonQuoted(manifest.ladder),
      ",\n\"data\": {\"epoch\": ", manifest.data_epoch, ", \"offset\": ", manifest.data_offset,
      "},\n\"job_spec\": ", spec.empty() || spec[0] != '{' ? "{}" : spec, ",\n\"files\": [",
      FormatLines(manifest.files), "],\n\"tensors\": {", FormatLines(manifest.tensors), "}}\n");
  return absl::StrCat("{\"checksum\": \"", ChecksumText(ChecksumOf(body)), "\",\n", body);
}

absl::StatusOr<Manifest> MergeManifests(const std::vector<Manifest>& parts) {
  if (parts.empty() || parts.size() != static_cast<size_t>(parts[0].ranks)) {
    return Damaged(absl::StrCat(parts.size(), " parts, of ", parts.empty() ? 0 : parts[0].ranks,
                                " ranks that have saved"));
  }
  Manifest merged = parts[0];
  merged.files.clear();
  merged.tensors.clear();
  for (const Manifest& part : parts) {
    PACELINE_RETURN_IF_ERROR(CheckSame(parts[0], part));
    merged.created = std::max(merged.created, part.created);
    merged.files.insert(merged.files.end(), part.files.begin(), part.files.end());
    merged.tensors.insert(merged.tensors.end(), part.tensors.begin(), part.tensors.end());
  }
  std::sort(merged.files.begin(), merged.files.end(), ByName<ManifestFile>);
  for (size_t i = 1; i < merged.files.size(); ++i) {
    if (merged.files[i].name == merged.files[i - 1].name) {
      return Damaged(absl::StrCat("two parts have the file ", merged.files[i].name));
    }
  }
  std::stable_sort(merged.tensors.begin(), merged.tensors.end(), ByName<ManifestTensor>);
  PACELINE_RETURN_IF_ERROR(JoinTensors(merged.tensors));
  PACELINE_RETURN_IF_ERROR(CheckComplete(merged));
  return merged;
}

absl::Status CheckComplete(const Manifest& manifest) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    int64_t next = 0;
    for (const TensorSlice& slice : tensor.slices) {
      if (slice.first_row != next) {
        return Damaged(absl::StrCat("tensor \"", tensor.name, "\": the slice of rows from ",
                                    slice.first_row, " on, in ", slice.file,
                                    slice.first_row < next ? ", repeats rows" : ", leaves a gap",
                                    "; the rows before it end at ", next));
      }
      next += slice.rows;
    }
    if (next != RowsOf(tensor) || (next == 0 && tensor.slices.size() > 1)) {
      return Damaged(absl::StrCat("tensor \"", tensor.name, "\": ", tensor.slices.size(),
                                  " slices with ", next, " rows, of ", RowsOf(tensor)));
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline
