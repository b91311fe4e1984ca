#include "worker/trainer/model/compiled_package.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/dtype.h"

namespace paceline {
namespace {

using absl::StrCat;
using Metadata = std::unordered_map<std::string, std::string>;
using Kind = CompiledTensor::Kind;

// Of the metadata that are read here.
constexpr absl::string_view kFormat = "1";

absl::Status Damaged(absl::string_view key) {
  return absl::DataLossError(StrCat("its description lacks a sound ", key,
                                    ": the file is damaged; export the model anew"));
}

absl::StatusOr<std::string> ValueOf(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find("paceline_" + key);
  if (found == metadata.end()) return Damaged(key);
  return found->second;
}

// The words of each line.
absl::StatusOr<std::vector<std::vector<std::string>>> RowsOf(const Metadata& metadata,
                                                             const std::string& key, size_t words) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, ValueOf(metadata, key));
  std::vector<std::vector<std::string>> rows;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::vector<std::string> row = absl::StrSplit(line, ' ');
    if (row.size() != words) return Damaged(key);
    rows.push_back(std::move(row));
  }
  return rows;
}

// Of "F32" and "4x3", or of a scalar "-".
std::optional<CompiledForm> FormOf(const std::string& dtype, absl::string_view shape) {
  CompiledForm form;
  const std::optional<at::ScalarType> type = TypeOfDtype(dtype);
  if (!type.has_value()) return std::nullopt;
  form.type = *type;
  if (shape == "-") return form;
  for (const absl::string_view size : absl::StrSplit(shape, 'x')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(size, &number) || number < 0) return std::nullopt;
    form.shape.push_back(number);
  }
  return form;
}

std::optional<Kind> KindOf(absl::string_view text) {
  if (text == "parameter") return Kind::kParameter;
  if (text == "changed") return Kind::kChanged;
  if (text == "kept") return Kind::kKept;
  return std::nullopt;
}

// Of a batch.
absl::StatusOr<CompiledForm> BatchFormOf(const Metadata& metadata, const std::string& key) {
  PACELINE_ASSIGN_OR_RETURN(const auto rows, RowsOf(metadata, key, 2));
  if (rows.size() != 1) return Damaged(key);
  const std::optional<CompiledForm> form = FormOf(rows[0][0], rows[0][1]);
  if (!form.has_value() || form->shape.empty() || form->shape.front() < 1) return Damaged(key);
  return *form;
}

absl::Status ReadState(const Metadata& metadata, CompiledPackage* package) {
  PACELINE_ASSIGN_OR_RETURN(const auto state, RowsOf(metadata, "state", 4));
  std::set<std::string> names;
  for (const std::vector<std::string>& row : state) {
    const std::optional<Kind> kind = KindOf(row[0]);
    std::optional<CompiledForm> form = FormOf(row[1], row[2]);
    if (!kind.has_value() || !form.has_value() || !names.insert(row[3]).second) {
      return Damaged("state");
    }
    package->state.push_back({*kind, *std::move(form), row[3]});
  }
  PACELINE_ASSIGN_OR_RETURN(const auto tied, RowsOf(metadata, "tied", 2));
  for (const std::vector<std::string>& row : tied) {
    if (names.count(row[0]) > 0 || names.count(row[1]) == 0) return Damaged("tied");
    package->tied.push_back({row[0], row[1]});
  }
  PACELINE_ASSIGN_OR_RETURN(const auto constants, RowsOf(metadata, "constants", 3));
  for (const std::vector<std::string>& row : constants) {
    std::optional<CompiledForm> form = FormOf(row[1], row[2]);
    if (!form.has_value()) return Damaged("constants");
    package->constants.push_back({Kind::kConstant, *std::move(form), row[0]});
  }
  return absl::OkStatus();
}

absl::StatusOr<Flops> FlopsOf(const Metadata& metadata) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, ValueOf(metadata, "flops"));
  Flops flops;
  if (text.empty()) return flops;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  double* const places[] = {&flops.half, &flops.matrices, &flops.convolutions, &flops.other};
  if (words.size() != 4) return Damaged("flops");
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::SimpleAtod(words[i], places[i])) return Damaged("flops");
  }
  return flops;
}

// What the CPU can do: the value of the line "flags", on Arm "Features".
std::set<std::string> FeaturesIn(absl::string_view cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "flags") && !absl::StartsWith(line, "Features")) continue;
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    return absl::StrSplit(line.substr(colon + 1), ' ', absl::SkipWhitespace());
  }
  return {};
}

bool Same(const CompiledForm& a, const CompiledForm& b) {
  return a.type == b.type && a.shape == b.shape;
}

}  // namespace

absl::StatusOr<CompiledPackage> ParseCompiledPackage(const Metadata& metadata) {
  const auto format = metadata.find("paceline_format");
  if (format == metadata.end()) {
    return absl::DataLossError("was not written by python -m paceline.export");
  }
  if (format->second != kFormat) {
    return absl::DataLossError(StrCat("has a description of format ", format->second,
                                      ", and this trainer knows ", kFormat,
                                      ": export the model with this version of paceline"));
  }
  CompiledPackage package;
  PACELINE_ASSIGN_OR_RETURN(package.torch_version, ValueOf(metadata, "torch"));
  PACELINE_ASSIGN_OR_RETURN(const std::string instructions, ValueOf(metadata, "instructions"));
  package.instructions = absl::StrSplit(instructions, ' ', absl::SkipEmpty());
  PACELINE_ASSIGN_OR_RETURN(package.inputs, BatchFormOf(metadata, "inputs"));
  PACELINE_ASSIGN_OR_RETURN(package.targets, BatchFormOf(metadata, "targets"));
  PACELINE_RETURN_IF_ERROR(ReadState(metadata, &package));
  PACELINE_ASSIGN_OR_RETURN(package.flops_per_sample, FlopsOf(metadata));
  return package;
}

absl::Status CheckCompiledFor(const CompiledPackage& package, absl::string_view torch_version,
                              absl::string_view cpuinfo) {
  if (package.torch_version != torch_version) {
    return absl::FailedPreconditionError(StrCat("was exported with torch ", package.torch_version,
                                                ", and this trainer has ", torch_version,
                                                ": export the model with torch ", torch_version));
  }
  const std::set<std::string> features = FeaturesIn(cpuinfo);
  std::vector<std::string> missing;
  for (const std::string& one : package.instructions) {
    if (features.count(one) == 0) missing.push_back(one);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat(
      "was exported on a machine whose CPU has ", absl::StrJoin(missing, ", "),
      ", which this one lacks: export the model on the oldest of the machines, or leave this "
      "one out (placement)"));
}

absl::Status CheckCompiledData(const CompiledPackage& package, const SampleFormat& format) {
  const int64_t batch = package.batch();
  CompiledForm inputs;
  CompiledForm targets{at::kLong, {batch}};
  if (format.image.has_value()) {
    inputs = {at::kFloat,
              {batch, format.image->channels, format.image->height, format.image->width}};
  } else {
    inputs = {at::kLong, {batch, format.sequence_length.value_or(1)}};
    targets = inputs;
  }
  if (Same(inputs, package.inputs) && Same(targets, package.targets)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("was exported for inputs ", CompiledFormText(package.inputs), " and targets ",
             CompiledFormText(package.targets), ", and data.train has ", CompiledFormText(inputs),
             " and ", CompiledFormText(targets), ": export it for batches of such data"));
}

std::string CompiledFormText(const CompiledForm& form) {
  return StrCat(c10::toString(form.type), " [", absl::StrJoin(form.shape, ", "), "]");
}

}  // namespace paceline
