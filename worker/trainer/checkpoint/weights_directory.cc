#include "worker/trainer/checkpoint/weights_directory.h"

#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// Names of tensors, by file.
using Index = std::map<std::string, std::set<std::string>>;

absl::StatusOr<Index> ReadIndex(const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(
      const MappedFile file,
      MappedFile::Open(absl::StrCat(directory, "/", kIndexFile), MappedFile::Access::kRead));
  const char* const text = static_cast<const char*>(file.data());
  const nlohmann::json json = nlohmann::json::parse(text, text + file.size(), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return absl::DataLossError(absl::StrCat(kIndexFile, " is no JSON object with a weight_map"));
  }
  Index index;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    if (!name.is_string() || absl::StrContains(name.get<std::string>(), '/')) {
      return absl::DataLossError(
          absl::StrCat(kIndexFile, ": the file of ", tensor, " is no name of a file here"));
    }
    index[name.get<std::string>()].insert(tensor);
  }
  return index;
}

// The file must hold exactly the tensors that the index says it does.
absl::Status CheckAgainstIndex(const std::string& name, const SafetensorsFile& file,
                               std::set<std::string> expected) {
  for (const Safetensor& tensor : file.tensors()) {
    if (expected.erase(tensor.name) == 0) {
      return absl::DataLossError(
          absl::StrCat(name, " holds ", tensor.name, ", which ", kIndexFile, " does not say"));
    }
  }
  if (expected.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(name, " does not hold ", *expected.begin(), ", as ", kIndexFile, " says"));
}

absl::StatusOr<std::vector<SafetensorsFile>> OpenIndexed(const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(const Index index, ReadIndex(directory));
  std::vector<SafetensorsFile> files;
  for (const auto& [name, tensors] : index) {
    absl::StatusOr<SafetensorsFile> file =
        SafetensorsFile::Open(absl::StrCat(directory, "/", name));
    if (absl::IsNotFound(file.status())) {
      return absl::NotFoundError(absl::StrCat(name, " is missing, in which ", kIndexFile,
                                              " says are ", tensors.size(),
                                              " tensors: copy it there too"));
    }
    if (!file.ok()) return file.status();
    PACELINE_RETURN_IF_ERROR(CheckAgainstIndex(name, *file, tensors));
    files.push_back(*std::move(file));
  }
  return files;
}

bool Exists(const std::string& directory, const std::string& name) {
  return access(absl::StrCat(directory, "/", name).c_str(), F_OK) == 0;
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsFile>> OpenWeightsDirectory(const std::string& directory) {
  // As transformers does: the single file comes first.
  if (Exists(directory, kSingleFile)) {
    PACELINE_ASSIGN_OR_RETURN(SafetensorsFile file,
                              SafetensorsFile::Open(absl::StrCat(directory, "/", kSingleFile)));
    std::vector<SafetensorsFile> files;
    files.push_back(std::move(file));
    return files;
  }
  if (Exists(directory, kIndexFile)) return OpenIndexed(directory);
  return absl::NotFoundError(absl::StrCat("a directory with neither ", kSingleFile, " nor ",
                                          kIndexFile, ", nor a checkpoint's manifest.json"));
}

}  // namespace paceline
