// The functions of manifest.h that read possibly damaged text.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/checkpoint/manifest.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "common/json/json_walk.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

constexpr size_t kMaxFileName = 255;
// As many as torch computes with. Without a bound, each slice of a hostile tensor would take the
// memory and time of millions.
constexpr size_t kMaxDimensions = 64;

absl::Status Damaged(absl::string_view where, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(where, ": ", what));
}

// Receives values while the manifest is read, into the last file, tensor and slice.
struct Target {
  Manifest manifest;
  int64_t version = 0;
  int64_t ranks = 0;
  int64_t shards = 1;
  JsonCollector job_spec;
  std::vector<int64_t> rows;  // Of the current slice.
  std::string checksum;       // Of the current slice.

  ManifestFile& file() { return manifest.files.back(); }
  ManifestTensor& tensor() { return manifest.tensors.back(); }
  TensorSlice& slice() { return tensor().slices.back(); }
};

struct Object {
  int values;  // Number of values it must have: all known ones that are not optional.
  void (*begin)(Target&, const std::string& key) = nullptr;
  absl::Status (*end)(Target&, const std::string& path) = nullptr;
};
struct Array {
  bool optional = false;
};
struct Number {
  int64_t* (*place)(Target&);
  bool optional = false;
};
struct Text {
  std::string* (*place)(Target&);
};

// A value that this version knows; others are ignored.
struct Field {
  std::vector<absl::string_view> path;  // "*" matches any key or index.
  std::variant<Object, Array, Number, Text> kind;
};

absl::Status EndSlice(Target& to, const std::string& path) {
  const std::optional<uint64_t> checksum = ParseChecksum(to.checksum);
  if (!checksum.has_value()) return Damaged(path, "its checksum is none");
  const Box& box = to.slice().box;
  if (box.offsets.size() != box.sizes.size()) {
    return Damaged(path, "it has not as many offsets as sizes");
  }
  if (to.rows.empty() && !to.slice().is_rows()) to.rows = {box.offsets[0], box.sizes[0]};
  if (to.rows.size() != 2) return Damaged(path, "rows are not two numbers: first and count");
  to.slice().checksum = *checksum;
  to.slice().first_row = to.rows[0];
  to.slice().rows = to.rows[1];
  to.rows.clear();
  return absl::OkStatus();
}

const std::vector<Field>& Fields() {
  static const auto& fields = *new std::vector<Field>{
      {{}, Object{14}},
      {{"format_version"}, Number{[](Target& to) { return &to.version; }}},
      {{"paceline_version"}, Text{[](Target& to) { return &to.manifest.paceline_version; }}},
      {{"torch_version"}, Text{[](Target& to) { return &to.manifest.torch_version; }}},
      {{"created"}, Number{[](Target& to) { return &to.manifest.created; }}},
      {{"job_id"}, Text{[](Target& to) { return &to.manifest.job_id; }}},
      {{"generation"}, Number{[](Target& to) { return &to.manifest.generation; }}},
      {{"step"}, Number{[](Target& to) { return &to.manifest.step; }}},
      {{"ranks"}, Number{[](Target& to) { return &to.ranks; }}},
      {{"shards"}, Number{[](Target& to) { return &to.shards; }, /*optional=*/true}},
      {{"plan_epoch"}, Number{[](Target& to) { return &to.manifest.plan_epoch; }}},
      {{"ladder"}, Text{[](Target& to) { return &to.manifest.ladder; }}},
      {{"data"}, Object{2}},
      {{"data", "epoch"}, Number{[](Target& to) { return &to.manifest.data_epoch; }}},
      {{"data", "offset"}, Number{[](Target& to) { return &to.manifest.data_offset; }}},
      {{"job_spec"}, Object{0}},
      {{"files"}, Array{}},
      {{"files", "*"},
       Object{2, [](Target& to, const std::string&) { to.manifest.files.emplace_back(); }}},
      {{"files", "*", "name"}, Text{[](Target& to) { return &to.file().name; }}},
      {{"files", "*", "bytes"}, Number{[](Target& to) { return &to.file().bytes; }}},
      {{"tensors"}, Object{0}},
      {{"tensors", "*"},
       Object{3, [](Target& to,
                    const std::string& name) { to.manifest.tensors.emplace_back().name = name; }}},
      {{"tensors", "*", "dtype"}, Text{[](Target& to) { return &to.tensor().dtype; }}},
      {{"tensors", "*", "shape"}, Array{}},
      {{"tensors", "*", "shape", "*"},
       Number{[](Target& to) { return &to.tensor().shape.emplace_back(); }}},
      {{"tensors", "*", "slices"}, Array{}},
      {{"tensors", "*", "slices", "*"},
       Object{4, [](Target& to, const std::string&) { to.tensor().slices.emplace_back(); },
              EndSlice}},
      {{"tensors", "*", "slices", "*", "file"}, Text{[](Target& to) { return &to.slice().file; }}},
      {{"tensors", "*", "slices", "*", "rows"}, Array{/*optional=*/true}},
      {{"tensors", "*", "slices", "*", "rows", "*"},
       Number{[](Target& to) { return &to.rows.emplace_back(); }}},
      {{"tensors", "*", "slices", "*", "offsets"}, Array{/*optional=*/true}},
      {{"tensors", "*", "slices", "*", "offsets", "*"},
       Number{[](Target& to) { return &to.slice().box.offsets.emplace_back(); }}},
      {{"tensors", "*", "slices", "*", "sizes"}, Array{/*optional=*/true}},
      {{"tensors", "*", "slices", "*", "sizes", "*"},
       Number{[](Target& to) { return &to.slice().box.sizes.emplace_back(); }}},
      {{"tensors", "*", "slices", "*", "offset"},
       Number{[](Target& to) { return &to.slice().offset; }}},
      {{"tensors", "*", "slices", "*", "bytes"},
       Number{[](Target& to) { return &to.slice().bytes; }}},
      {{"tensors", "*", "slices", "*", "checksum"}, Text{[](Target& to) { return &to.checksum; }}},
  };
  return fields;
}

// The fields as a tree, in which each step of a path is one comparison or few.
struct Node {
  const Field* field = nullptr;
  std::vector<std::pair<absl::string_view, std::unique_ptr<Node>>> below;

  const Node* Find(const JsonStep& step) const {
    for (const auto& [name, node] : below) {
      if (name == "*" || (!step.in_array && name == step.key)) return node.get();
    }
    return nullptr;
  }
};

const Node& Root() {
  static const Node& root = *[] {
    auto* const made = new Node;
    for (const Field& field : Fields()) {
      Node* node = made;
      for (absl::string_view name : field.path) {
        auto at = absl::c_find_if(node->below, [&](const auto& one) { return one.first == name; });
        if (at == node->below.end()) {
          at = node->below.insert(at, {name, std::make_unique<Node>()});
        }
        node = at->second.get();
      }
      node->field = &field;
    }
    return made;
  }();
  return root;
}

bool IsOptional(const Field& field) {
  if (const auto* array = std::get_if<Array>(&field.kind)) return array->optional;
  const auto* number = std::get_if<Number>(&field.kind);
  return number != nullptr && number->optional;
}

class ManifestVisitor : public JsonVisitor {
 public:
  absl::Status Begin(const JsonPath& path, JsonContainer container) override {
    if (InJobSpec(path)) PACELINE_RETURN_IF_ERROR(to_.job_spec.Begin(path, container));
    const Node* const node = Found(path);
    open_.resize(path.size() + 1);
    open_[path.size()] = {node, 0};
    if (node == nullptr || node->field == nullptr) return absl::OkStatus();
    const Field* const field = node->field;
    if (container == JsonContainer::kArray) {
      return std::holds_alternative<Array>(field->kind) ? absl::OkStatus()
                                                        : Damaged(Where(path), "is an array");
    }
    const auto* object = std::get_if<Object>(&field->kind);
    if (object == nullptr) return Damaged(Where(path), "is an object");
    if (object->begin != nullptr) object->begin(to_, path.back().key);
    return absl::OkStatus();
  }

  absl::Status Scalar(const JsonPath& path, const JsonScalar& value) override {
    if (InJobSpec(path)) PACELINE_RETURN_IF_ERROR(to_.job_spec.Scalar(path, value));
    const Node* const node = Found(path);
    if (node == nullptr || node->field == nullptr) return absl::OkStatus();
    const Field* const field = node->field;
    if (const auto* text = std::get_if<Text>(&field->kind)) {
      const auto* given = std::get_if<std::string>(&value);
      if (given == nullptr) return Damaged(Where(path), "is no text");
      *text->place(to_) = *given;
      return absl::OkStatus();
    }
    const auto* number = std::get_if<Number>(&field->kind);
    const auto* given = std::get_if<uint64_t>(&value);
    if (number == nullptr) return Damaged(Where(path), "is neither object nor array");
    if (path.back().in_array && path.back().index >= kMaxDimensions) {
      return Damaged(Where(path), absl::StrCat("is beyond the ", kMaxDimensions,
                                               " dimensions that a tensor has at most"));
    }
    if (given == nullptr || *given > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Damaged(Where(path), "is no whole number from 0 to 2^63 - 1");
    }
    *number->place(to_) = static_cast<int64_t>(*given);
    return absl::OkStatus();
  }

  absl::Status End(const JsonPath& path, JsonContainer container) override {
    if (InJobSpec(path)) PACELINE_RETURN_IF_ERROR(to_.job_spec.End(path, container));
    const auto [node, values] = open_[path.size()];
    const Field* const field = node == nullptr ? nullptr : node->field;
    const auto* object = field == nullptr ? nullptr : std::get_if<Object>(&field->kind);
    if (object == nullptr) return absl::OkStatus();
    if (values < object->values) {
      return Damaged(Where(path), "lacks a value that belongs to it");
    }
    return object->end == nullptr ? absl::OkStatus() : object->end(to_, JsonPathText(path));
  }

  // Requires: the walk has ended without an error.
  absl::StatusOr<Manifest> Take() {
    constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
    if (to_.ranks < 1 || to_.ranks > kMaxInt) return Damaged("ranks", "impossible");
    if (to_.shards < 1 || to_.shards > kMaxInt) return Damaged("shards", "impossible");
    if (to_.version < 1 || to_.version > kMaxInt) return Damaged("format_version", "impossible");
    to_.manifest.version = static_cast<int>(to_.version);
    to_.manifest.ranks = static_cast<int>(to_.ranks);
    to_.manifest.shards = static_cast<int>(to_.shards);
    to_.manifest.job_spec = to_.job_spec.text();
    return std::move(to_.manifest);
  }

 private:
  static bool InJobSpec(const JsonPath& path) { return !path.empty() && path[0].key == "job_spec"; }

  static std::string Where(const JsonPath& path) {
    return path.empty() ? "the manifest" : JsonPathText(path);
  }

  // An object or array that has begun.
  struct Open {
    const Node* node = nullptr;  // Null: no known field, nor above one.
    int values = 0;              // Known values so far that are not optional.
  };

  // The place of a value among the known fields, null if it has none. Counts it as a value of the
  // object that contains it.
  const Node* Found(const JsonPath& path) {
    if (path.empty()) return &Root();
    Open& above = open_[path.size() - 1];
    const Node* const node = above.node == nullptr ? nullptr : above.node->Find(path.back());
    if (node != nullptr && node->field != nullptr && !IsOptional(*node->field)) ++above.values;
    return node;
  }

  Target to_;
  std::vector<Open> open_;  // By depth.
};

// Names appear in one-line messages, and a file's in a path.
bool IsName(absl::string_view name) {
  return !name.empty() && absl::c_none_of(name, [](char c) { return absl::ascii_iscntrl(c); });
}

bool IsFileName(absl::string_view name) {
  return IsName(name) && name.size() <= kMaxFileName && !absl::StrContains(name, '/') &&
         name != "." && name != ".." && name != kManifestName;
}

absl::Status CheckBox(absl::string_view where, const ManifestTensor& tensor,
                      const TensorSlice& slice) {
  const Box& box = slice.box;
  if (!IsWithin(box, tensor.shape) || absl::c_linear_search(box.sizes, 0)) {
    return Damaged(where, absl::StrCat("offsets [", absl::StrJoin(box.offsets, ", "),
                                       "] and sizes [", absl::StrJoin(box.sizes, ", "),
                                       "] are not those of elements of a tensor of shape [",
                                       absl::StrJoin(tensor.shape, ", "), "]"));
  }
  if (box.offsets[0] != slice.first_row || box.sizes[0] != slice.rows) {
    return Damaged(where, "its rows are not those of its offsets and sizes");
  }
  return absl::OkStatus();
}

absl::Status CheckSlice(const ManifestTensor& tensor, const TensorSlice& slice,
                        const std::vector<ManifestFile>& files) {
  const std::string where =
      absl::StrCat("tensor \"", tensor.name, "\", rows from ", slice.first_row, " on");
  const auto file = std::lower_bound(
      files.begin(), files.end(), slice.file,
      [](const ManifestFile& a, const std::string& name) { return a.name < name; });
  if (file == files.end() || file->name != slice.file) {
    return Damaged(where, absl::StrCat("in a file that is not listed: \"", slice.file, "\""));
  }
  if (!slice.is_rows()) {
    PACELINE_RETURN_IF_ERROR(CheckBox(where, tensor, slice));
  }
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  // An empty tensor may have an entry, which then has no rows.
  if (slice.first_row > rows || slice.rows > rows - slice.first_row ||
      (slice.rows == 0 && rows != 0)) {
    return Damaged(where, absl::StrCat(slice.rows, " rows of a tensor that has ", rows));
  }
  // Cannot overflow, since the whole tensor's bytes do not.
  const int64_t bytes = slice.is_rows()
                            ? slice.rows * RowBytes(tensor)
                            : ElementsOf(slice.box.sizes) * SafetensorsElementBytes(tensor.dtype);
  if (slice.bytes != bytes) {
    return Damaged(where, absl::StrCat(slice.bytes, " bytes are not those of its rows"));
  }
  if (slice.bytes > file->bytes || slice.offset > file->bytes - slice.bytes) {
    return Damaged(where, absl::StrCat("offset ", slice.offset, " and ", slice.bytes,
                                       " bytes are not within ", file->name, " of ", file->bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const ManifestTensor& tensor, const std::vector<ManifestFile>& files) {
  const std::string where = absl::StrCat("tensor \"", tensor.name, "\"");
  if (!IsName(tensor.name)) return Damaged("tensors", "a name that is empty or not printable");
  if (SafetensorsElementBytes(tensor.dtype) == 0) {
    return Damaged(where, absl::StrCat("unknown dtype \"", tensor.dtype, "\""));
  }
  if (TensorBytes(tensor) < 0) return Damaged(where, "its shape is too large for any memory");
  std::set<absl::string_view> in_files;
  for (const TensorSlice& slice : tensor.slices) {
    PACELINE_RETURN_IF_ERROR(CheckSlice(tensor, slice, files));
    // In the file, the name must be unique.
    if (!in_files.insert(slice.file).second) {
      return Damaged(where, absl::StrCat("two slices in ", slice.file));
    }
  }
  return absl::OkStatus();
}

// Sorts files, tensors and slices, and checks that they are consistent.
absl::Status Settle(Manifest& manifest) {
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  absl::c_sort(manifest.files, by_name);
  absl::c_sort(manifest.tensors, by_name);
  const std::string* last = nullptr;
  for (const ManifestFile& file : manifest.files) {
    if (!IsFileName(file.name)) return Damaged("files", "a name that is none of a file beside it");
    if (last != nullptr && *last == file.name) return Damaged(file.name, "listed twice");
    last = &file.name;
  }
  for (ManifestTensor& tensor : manifest.tensors) {
    PACELINE_RETURN_IF_ERROR(CheckTensor(tensor, manifest.files));
    absl::c_sort(tensor.slices, IsBefore);
    const bool boxes =
        absl::c_any_of(tensor.slices, [](const TensorSlice& slice) { return !slice.is_rows(); });
    if (boxes && manifest.version < kBoxesVersion) {
      return Damaged(absl::StrCat("tensor \"", tensor.name, "\""),
                     absl::StrCat("its slices are no rows, which takes format_version ",
                                  kBoxesVersion, " or later"));
    }
  }
  return absl::OkStatus();
}

// In all versions the first line has the checksum of the rest, and the second the version.
absl::Status CheckFirstLines(absl::string_view contents) {
  const size_t line_end = contents.find('\n');
  absl::string_view line = contents.substr(0, line_end);
  std::optional<uint64_t> checksum;
  if (absl::ConsumePrefix(&line, "{\"checksum\": \"") && absl::ConsumeSuffix(&line, "\",")) {
    checksum = ParseChecksum(line);
  }
  if (!checksum.has_value() || line_end == absl::string_view::npos) {
    return Damaged("offset 0", "no line with a checksum");
  }
  absl::string_view rest = contents.substr(line_end + 1);
  if (const uint64_t found = ChecksumOf(rest); found != *checksum) {
    return Damaged("offset 0", absl::StrCat("damaged: its checksum is ", ChecksumText(found),
                                            " instead of ", ChecksumText(*checksum)));
  }
  int64_t version;
  if (!absl::ConsumePrefix(&rest, "\"format_version\": ") ||
      !absl::SimpleAtoi(rest.substr(0, rest.find(',')), &version)) {
    return Damaged("format_version", "not in the second line");
  }
  if (version <= kManifestVersion) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("format_version ", version, " is newer than ", kManifestVersion,
                   ", the newest that this program reads: use a newer Paceline"));
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(absl::string_view contents) {
  PACELINE_RETURN_IF_ERROR(CheckFirstLines(contents));
  ManifestVisitor visitor;
  PACELINE_RETURN_IF_ERROR(WalkJson(contents, visitor));
  PACELINE_ASSIGN_OR_RETURN(Manifest manifest, visitor.Take());
  PACELINE_RETURN_IF_ERROR(Settle(manifest));
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path, int64_t* bytes) {
  PACELINE_ASSIGN_OR_RETURN(const std::string contents, ReadBoundedFile(path, kMaxManifestBytes));
  if (bytes != nullptr) *bytes = static_cast<int64_t>(contents.size());
  absl::StatusOr<Manifest> manifest = ParseManifest(contents);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(),
                      absl::StrCat(path, ": ", manifest.status().message()));
}

}  // namespace paceline
