#include "worker/trainer/checkpoint/weights_directory.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {
namespace {

bool Exists(const std::string& directory, const std::string& name) {
  return access(absl::StrCat(directory, "/", name).c_str(), F_OK) == 0;
}

absl::StatusOr<WeightsIndex> ReadIndex(const std::string& directory, const std::string& file) {
  PACELINE_ASSIGN_OR_RETURN(
      const MappedFile mapped,
      MappedFile::Open(absl::StrCat(directory, "/", file), MappedFile::Access::kRead));
  const char* const text = static_cast<const char*>(mapped.data());
  const nlohmann::json json = nlohmann::json::parse(text, text + mapped.size(), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return absl::DataLossError(absl::StrCat(file, " is no JSON object with a weight_map"));
  }
  WeightsIndex index;
  index.file = file;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    if (!name.is_string() || absl::StrContains(name.get<std::string>(), '/')) {
      return absl::DataLossError(
          absl::StrCat(file, ": the file of ", tensor, " is no name of a file here"));
    }
    index.files[name.get<std::string>()].insert(tensor);
  }
  for (const auto& [name, tensors] : index.files) {
    if (Exists(directory, name)) continue;
    return absl::NotFoundError(absl::StrCat(name, " is missing, in which ", file, " says are ",
                                            tensors.size(), " tensors: copy it there too"));
  }
  return index;
}

}  // namespace

absl::StatusOr<WeightsIndex> ReadWeightsDirectory(const std::string& directory) {
  for (const char* const single : {"model.safetensors", "pytorch_model.bin"}) {
    if (Exists(directory, single)) return WeightsIndex{"", {{single, {}}}};
    const std::string index = absl::StrCat(single, ".index.json");
    if (Exists(directory, index)) return ReadIndex(directory, index);
  }
  return absl::NotFoundError(
      "a directory with neither model.safetensors nor model.safetensors.index.json, neither "
      "pytorch_model.bin nor its index, nor a checkpoint's manifest.json");
}

absl::Status CheckAgainstIndex(const std::string& index, const std::string& name,
                               const std::set<std::string>& found,
                               const std::set<std::string>& expected) {
  for (const std::string& tensor : found) {
    if (expected.count(tensor) == 0) {
      return absl::DataLossError(
          absl::StrCat(name, " holds ", tensor, ", which ", index, " does not say"));
    }
  }
  for (const std::string& tensor : expected) {
    if (found.count(tensor) == 0) {
      return absl::DataLossError(
          absl::StrCat(name, " does not hold ", tensor, ", as ", index, " says"));
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline
