#include "common/export/export.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"
#include "common/export/llama_config.h"
#include "common/export/model_tensors.h"
#include "google/protobuf/util/json_util.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Whether the parent directory of `path` exists.
absl::Status CheckParent(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  if (parent.empty() || fs::is_directory(parent, error)) return absl::OkStatus();
  if (error == std::errc::permission_denied) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, ": ", parent.string(), ": ", error.message()));
  }
  return absl::NotFoundError(absl::StrCat("there is no directory ", parent.string(),
                                          " to write into: make it, or name another"));
}

// A directory that is being filled. Unless Keep is called, what was written is removed.
class OutputDirectory {
 public:
  static absl::StatusOr<OutputDirectory> Open(const std::string& path) {
    PACELINE_RETURN_IF_ERROR(CheckParent(path));
    std::error_code error;
    const bool made = fs::create_directory(path, error);
    if (error) return Failed(path, error);
    const bool empty = fs::is_empty(path, error);
    if (error) return Failed(path, error);
    if (!empty) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " is not empty: name a directory that is, or a new one"));
    }
    return OutputDirectory(path, made);
  }

  OutputDirectory(OutputDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        made_(std::exchange(other.made_, false)),
        files_(std::exchange(other.files_, {})) {}
  OutputDirectory& operator=(OutputDirectory&&) = delete;

  ~OutputDirectory() {
    std::error_code ignored;
    for (const std::string& file : files_) fs::remove(file, ignored);
    if (made_) fs::remove(path_, ignored);
  }

  std::string Add(const std::string& name) {
    files_.push_back(absl::StrCat(path_, "/", name));
    return files_.back();
  }

  std::vector<std::string> Keep() {
    made_ = false;
    return std::exchange(files_, {});
  }

 private:
  OutputDirectory(std::string path, bool made) : path_(std::move(path)), made_(made) {}

  static absl::Status Failed(const std::string& path, const std::error_code& error) {
    const std::string message = absl::StrCat("cannot make ", path, ": ", error.message());
    if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(message);
    if (error == std::errc::permission_denied || error == std::errc::read_only_file_system) {
      return absl::PermissionDeniedError(message);
    }
    return absl::FailedPreconditionError(message);
  }

  std::string path_;
  bool made_;
  std::vector<std::string> files_;
};

absl::StatusOr<std::vector<ModelTensor>> TensorsToExport(const CheckpointFiles& checkpoint,
                                                         const ExportOptions& options) {
  std::vector<ModelTensor> tensors = ModelTensors(checkpoint.manifest(), options.floats);
  if (tensors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.directory(), " holds no tensor of a model"));
  }
  return tensors;
}

int64_t BytesOf(const std::vector<ModelTensor>& tensors) {
  int64_t bytes = 0;
  for (const ModelTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

// Groups consecutive tensors, at most `max_bytes` per group; a larger tensor is alone.
std::vector<std::vector<ModelTensor>> Split(const std::vector<ModelTensor>& tensors,
                                            int64_t max_bytes) {
  std::vector<std::vector<ModelTensor>> groups;
  int64_t room = 0;
  for (const ModelTensor& tensor : tensors) {
    if (groups.empty() || tensor.bytes > room) {
      groups.emplace_back();
      room = max_bytes;
    }
    groups.back().push_back(tensor);
    room -= tensor.bytes;
  }
  return groups;
}

OnWritten Counter(const ExportOptions& options, int64_t all) {
  return [&options, all, done = int64_t{0}](int64_t bytes) mutable {
    done += bytes;
    if (options.on_progress) options.on_progress(done, all);
    if (options.is_cancelled && options.is_cancelled()) {
      return absl::CancelledError("interrupted; nothing was exported");
    }
    return absl::OkStatus();
  };
}

// The index that maps tensors to files.
std::string IndexJson(const std::vector<std::vector<ModelTensor>>& groups,
                      const std::vector<std::string>& names, int64_t bytes) {
  nlohmann::json json;
  json["metadata"]["total_size"] = bytes;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const ModelTensor& tensor : groups[i]) json["weight_map"][tensor.name] = names[i];
  }
  return absl::StrCat(json.dump(2), "\n");
}

std::vector<std::string> FileNames(size_t count) {
  if (count == 1) return {"model.safetensors"};
  std::vector<std::string> names;
  for (size_t i = 1; i <= count; ++i) {
    names.push_back(absl::StrFormat("model-%05d-of-%05d.safetensors", i, count));
  }
  return names;
}

}  // namespace

absl::StatusOr<v1::JobSpec> SpecOf(const Manifest& manifest) {
  v1::JobSpec spec;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(manifest.job_spec, &spec, options);
  if (!status.ok()) {
    return absl::DataLossError(
        absl::StrCat("the manifest's job spec is none: ", std::string(status.message())));
  }
  return spec;
}

absl::StatusOr<ExportResult> ExportFile(const CheckpointFiles& checkpoint, const std::string& path,
                                        const ExportOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a directory, and this export is one file: name a file in it"));
  }
  PACELINE_RETURN_IF_ERROR(CheckParent(path));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                            TensorsToExport(checkpoint, options));
  ExportResult result{static_cast<int64_t>(tensors.size()), BytesOf(tensors), {path}};
  PACELINE_RETURN_IF_ERROR(
      WriteModelFile(checkpoint, tensors, path, Counter(options, result.bytes)));
  return result;
}

absl::StatusOr<ExportResult> ExportHuggingFace(const CheckpointFiles& checkpoint,
                                               const std::string& directory,
                                               const ExportOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const v1::JobSpec spec, SpecOf(checkpoint.manifest()));
  if (!spec.model().has_llama()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.directory(),
                     " is not of a llama, and Hugging Face's layout is for those; export it as one "
                     "safetensors file"));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                            TensorsToExport(checkpoint, options));
  const std::vector<std::vector<ModelTensor>> groups = Split(tensors, options.max_file_bytes);
  const std::vector<std::string> names = FileNames(groups.size());
  ExportResult result{static_cast<int64_t>(tensors.size()), BytesOf(tensors), {}};
  const OnWritten on_written = Counter(options, result.bytes);
  PACELINE_ASSIGN_OR_RETURN(OutputDirectory output, OutputDirectory::Open(directory));
  for (size_t i = 0; i < groups.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(
        WriteModelFile(checkpoint, groups[i], output.Add(names[i]), on_written));
  }
  if (groups.size() > 1) {
    PACELINE_RETURN_IF_ERROR(WriteFileAtomically(output.Add("model.safetensors.index.json"),
                                                 {IndexJson(groups, names, result.bytes)}));
  }
  // Last: without this file nobody takes the directory for a model.
  PACELINE_RETURN_IF_ERROR(
      WriteFileAtomically(output.Add("config.json"), {LlamaConfigJson(spec, options.floats)}));
  result.files = output.Keep();
  return result;
}

}  // namespace paceline
