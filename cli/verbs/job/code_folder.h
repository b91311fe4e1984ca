// Packs the files of a folder that travel with a job: those tracked by git, as they are on disk.
// Without a git repository, or if the folder has a .pacelineignore: all files that this does not
// exclude, except for .git, __pycache__ and virtual environments.
#ifndef CLI_VERBS_JOB_CODE_FOLDER_H_
#define CLI_VERBS_JOB_CODE_FOLDER_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job_spec.pb.h"

namespace paceline {

struct PackedCode {
  v1::Code code;
  std::string bytes;            // common/job_spec/code_files.h.
  std::set<std::string> paths;  // Relative to the folder.
  bool by_git = false;
  std::vector<std::string> untracked;  // Neither tracked nor ignored by git; these stay behind.
  std::vector<std::string> missing;    // Tracked, but not on disk.
};

// Errors name the file and say what to do; ResourceExhausted, with the largest files, if the files
// are too large.
absl::StatusOr<PackedCode> PackFolder(const std::string& folder);

// Names the largest of the files: "data/train.npy (12.3 MiB), model.pt (1.0 MiB)".
std::string LargestFiles(std::vector<std::pair<std::string, int64_t>> files);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_CODE_FOLDER_H_
