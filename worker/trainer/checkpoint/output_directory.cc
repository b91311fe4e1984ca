#include "worker/trainer/checkpoint/output_directory.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"

namespace paceline {

absl::Status PrepareOutputDirectory(absl::string_view key, const std::string& directory, int rank) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": cannot make ", directory, ": ", error.message()));
  }
  const std::string probe = absl::StrCat(directory, "/.writable.", rank);
  const absl::Status written = WriteFileAtomically(probe, {"1"});
  if (!written.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", written.message()));
  }
  std::filesystem::remove(probe, error);
  return absl::OkStatus();
}

}  // namespace paceline
