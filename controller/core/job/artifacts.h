// Files and directories that the scripts of a job's ranks have made, and reported (run.artifact).
#ifndef CONTROLLER_CORE_JOB_ARTIFACTS_H_
#define CONTROLLER_CORE_JOB_ARTIFACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

// As in proto/status.proto.
struct Artifact {
  std::string name;
  std::string path;
  bool directory = false;
  int64_t bytes = 0;
  std::string sha256;
  int64_t step = 0;
  absl::Time time = absl::UnixEpoch();  // By the clock of the rank's node.
  std::string error;
  Rank rank{-1};
  NodeName node;
};

// Of a job, and of a rank.
inline constexpr size_t kMostArtifacts = 32;

struct JobArtifacts {
  std::map<std::string, Artifact> by_name;
  bool left_out = false;  // There were more names, which are not kept.
};

// Takes in all that a rank on the node has reported so far. Of a name the newest one is kept, in
// whatever order reports come; what is known of it later completes it. Returns whether anything has
// changed.
bool TakeArtifacts(JobArtifacts& known, Rank rank, const NodeName& node,
                   const std::vector<Artifact>& reported);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_ARTIFACTS_H_
