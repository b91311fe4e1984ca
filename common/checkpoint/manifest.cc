#include "common/checkpoint/manifest.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/json/json_walk.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

// Slices of a tensor, where not all are rows: the check that they cover it takes up to 2 KB of
// memory for each. A job has at most 4096 ranks, and each has one slice of a tensor.
constexpr size_t kMaxBoxes = 1 << 16;

// Which elements of its tensor the slice has.
std::string FormatPlace(const TensorSlice& slice) {
  if (slice.is_rows()) {
    return absl::StrCat("\"rows\": [", slice.first_row, ", ", slice.rows, "]");
  }
  return absl::StrCat("\"offsets\": [", absl::StrJoin(slice.box.offsets, ", "), "], \"sizes\": [",
                      absl::StrJoin(slice.box.sizes, ", "), "]");
}

std::string Format(const TensorSlice& slice) {
  return absl::StrCat("{\"file\": ", JsonQuoted(slice.file), ", ", FormatPlace(slice),
                      ", \"offset\": ", slice.offset, ", \"bytes\": ", slice.bytes,
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

bool HasBoxes(const ManifestTensor& tensor) {
  return std::any_of(tensor.slices.begin(), tensor.slices.end(),
                     [](const TensorSlice& slice) { return !slice.is_rows(); });
}

// The oldest version whose readers understand the manifest.
int VersionOf(const Manifest& manifest) {
  const bool boxes = std::any_of(manifest.tensors.begin(), manifest.tensors.end(), HasBoxes);
  return std::max(manifest.version, boxes ? kBoxesVersion : 1);
}

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
  if (a.shards != b.shards) return differ("shards", a.shards, b.shards);
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

// Puts the slices of all parts together, tensor by tensor.
class TensorJoin {
 public:
  absl::Status Add(ManifestTensor tensor) {
    const auto [place, is_new] = places_.try_emplace(tensor.name, tensors_.size());
    if (is_new) {
      tensors_.push_back(std::move(tensor));
      return absl::OkStatus();
    }
    ManifestTensor& first = tensors_[place->second];
    if (first.dtype != tensor.dtype || first.shape != tensor.shape) {
      return Damaged(absl::StrCat("tensor \"", tensor.name, "\": ", first.dtype, " [",
                                  absl::StrJoin(first.shape, ", "), "] in one part and ",
                                  tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "),
                                  "] in another"));
    }
    for (TensorSlice& slice : tensor.slices) first.slices.push_back(std::move(slice));
    return absl::OkStatus();
  }

  // Sorted by name, and the slices of each.
  std::vector<ManifestTensor> Take() {
    std::sort(tensors_.begin(), tensors_.end(), ByName<ManifestTensor>);
    for (ManifestTensor& tensor : tensors_) {
      std::sort(tensor.slices.begin(), tensor.slices.end(), IsBefore);
    }
    return std::move(tensors_);
  }

 private:
  std::vector<ManifestTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> places_;  // By name.
};

// Whether the rows of slices that are whole rows follow each other.
absl::Status CheckRows(const ManifestTensor& tensor) {
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
  return absl::OkStatus();
}

absl::Status CheckBoxes(const ManifestTensor& tensor) {
  if (tensor.slices.size() > kMaxBoxes) {
    return Damaged(absl::StrCat("tensor \"", tensor.name, "\": ", tensor.slices.size(),
                                " slices that are not all rows, of which at most ", kMaxBoxes,
                                " are allowed"));
  }
  std::vector<Box> boxes;
  for (const TensorSlice& slice : tensor.slices) boxes.push_back(BoxOf(tensor, slice));
  const std::optional<std::string> problem = WhyNotCovered(tensor.shape, boxes);
  if (!problem.has_value()) return absl::OkStatus();
  return Damaged(absl::StrCat("tensor \"", tensor.name, "\": ", *problem));
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

Box BoxOf(const ManifestTensor& tensor, const TensorSlice& slice) {
  if (!slice.is_rows()) return slice.box;
  Box box = WholeBox(tensor.shape);
  if (box.sizes.empty()) return box;
  box.offsets[0] = slice.first_row;
  box.sizes[0] = slice.rows;
  return box;
}

bool IsBefore(const TensorSlice& a, const TensorSlice& b) {
  return std::tie(a.first_row, a.box.offsets, a.file) <
         std::tie(b.first_row, b.box.offsets, b.file);
}

std::string FormatManifest(const Manifest& manifest) {
  const std::string spec = CompactJson(manifest.job_spec).value_or("");
  const std::string shards =
      manifest.shards == 1 ? std::string() : absl::StrCat(",\n\"shards\": ", manifest.shards);
  const std::string body = absl::StrCat(
      "\"format_version\": ", VersionOf(manifest),
      ",\n\"paceline_version\": ", JsonQuoted(manifest.paceline_version),
      ",\n\"torch_version\": ", JsonQuoted(manifest.torch_version),
      ",\n\"created\": ", manifest.created, ",\n\"job_id\": ", JsonQuoted(manifest.job_id),
      ",\n\"generation\": ", manifest.generation, ",\n\"step\": ", manifest.step,
      ",\n\"ranks\": ", manifest.ranks, shards, ",\n\"plan_epoch\": ", manifest.plan_epoch,
      ",\n\"ladder\": ", JsonQuoted(manifest.ladder),
      ",\n\"data\": {\"epoch\": ", manifest.data_epoch, ", \"offset\": ", manifest.data_offset,
      "},\n\"job_spec\": ", spec.empty() || spec[0] != '{' ? "{}" : spec, ",\n\"files\": [",
      FormatLines(manifest.files), "],\n\"tensors\": {", FormatLines(manifest.tensors), "}}\n");
  return absl::StrCat("{\"checksum\": \"", ChecksumText(ChecksumOf(body)), "\",\n", body);
}

absl::StatusOr<Manifest> MergeManifests(std::vector<Manifest> parts) {
  if (parts.empty() || parts.size() != static_cast<size_t>(parts[0].ranks)) {
    return Damaged(absl::StrCat(parts.size(), " parts, of ", parts.empty() ? 0 : parts[0].ranks,
                                " ranks that have saved"));
  }
  int64_t created = 0;
  std::vector<ManifestFile> files;
  TensorJoin join;
  for (Manifest& part : parts) {
    PACELINE_RETURN_IF_ERROR(CheckSame(parts[0], part));
    created = std::max(created, part.created);
    files.insert(files.end(), part.files.begin(), part.files.end());
    for (ManifestTensor& tensor : part.tensors) {
      PACELINE_RETURN_IF_ERROR(join.Add(std::move(tensor)));
    }
  }
  std::sort(files.begin(), files.end(), ByName<ManifestFile>);
  for (size_t i = 1; i < files.size(); ++i) {
    if (files[i].name == files[i - 1].name) {
      return Damaged(absl::StrCat("two parts have the file ", files[i].name));
    }
  }
  Manifest merged = std::move(parts[0]);
  merged.created = created;
  merged.files = std::move(files);
  merged.tensors = join.Take();
  PACELINE_RETURN_IF_ERROR(CheckComplete(merged));
  return merged;
}

absl::Status CheckComplete(const Manifest& manifest) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    PACELINE_RETURN_IF_ERROR(HasBoxes(tensor) ? CheckBoxes(tensor) : CheckRows(tensor));
  }
  return absl::OkStatus();
}

}  // namespace paceline
