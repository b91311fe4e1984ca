#include "worker/daemon/trainer_environment.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

constexpr absl::string_view kNames[] = {
    "PATH",         "HOME",         "USER",          "LOGNAME",         "SHELL",
    "LANG",         "TZ",           "TMPDIR",        "LD_LIBRARY_PATH", "LD_PRELOAD",
    "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
};
constexpr absl::string_view kPrefixes[] = {
    "LC_",  "CUDA_", "NVIDIA_", "NCCL_",    "GLOO_",   "OMP_",      "MKL_",
    "KMP_", "GOMP_", "TORCH_",  "PYTORCH_", "MALLOC_", "PACELINE_",
};

bool IsKept(absl::string_view entry) {
  const absl::string_view name = entry.substr(0, entry.find('='));
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

}  // namespace

std::vector<std::string> ScrubEnvironment(const std::vector<std::string>& environment) {
  std::vector<std::string> kept;
  std::copy_if(environment.begin(), environment.end(), std::back_inserter(kept), IsKept);
  return kept;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace paceline
