// The files of a folder that travel with a job: those that git tracks, as they are on disk; where
// there is no git repository, or the folder has a .pacelineignore, all that this does not exclude.
//
// Of the latter .git, __pycache__ and virtual environments never travel.
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
  std::set<std::string> paths;  // From the folder on.
  bool by_git = false;
  std::vector<std::string> untracked;  // By git, and not ignored by it: these stay.
  std::vector<std::string> missing;    // Tracked, and not on disk.
};

// Errors name the file and say what to do; ResourceExhausted, with the largest files, when it is
// too much.
absl::StatusOr<PackedCode> PackFolder(const std::string& folder);

// The largest files, "data/train.npy (12.3 MiB), model.pt (1.0 MiB)"; of paths and their bytes.
std::string LargestFiles(std::vector<std::pair<std::string, int64_t>> files);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_CODE_FOLDER_H_
