// The paths of a node's files.
//
//   <state dir>/node.json
//   <state dir>/trainers/<job>.<generation>.<rank>/   a trainer dir, see shim/trainer_dir.h
//                       .../<job>.<generation>.<rank>/   the trainer's own dir, likewise
//   <state dir>/trainers/<job>.<generation>.<rank>.removed-<n>/   is being removed (state_dir.h)
//   <state dir>/trainers/<job>.code/   the code that travels with the job (job_codes.h)
//   <runtime dir>/daemon.sock
//   <runtime dir>/<job>.<generation>.<rank>.ring
#ifndef WORKER_DAEMON_STATE_NODE_PATHS_H_
#define WORKER_DAEMON_STATE_NODE_PATHS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/core/ids.h"

namespace paceline {

// Suffix after the job's id in the name of its code folder.
inline constexpr char kCodeDirEnd[] = ".code";

struct NodePaths {
  std::string state_dir;
  std::string runtime_dir;

  std::string NodeFile() const;
  std::string TrainersDir() const;
  std::string TrainerDir(const TrainerId& id) const;
  std::string OwnDir(const TrainerId& id) const;
  std::string CodeDir(const JobId& job) const;
  std::string LogDir(const TrainerId& id) const;
  std::string LogMarks(const TrainerId& id) const;
  std::string Socket() const;
  std::string Ring(const TrainerId& id) const;
};

// "job-0123456789ab.1.0". Requires IsValid(id).
std::string TrainerName(const TrainerId& id);

// Inverse of TrainerName; nothing for any other name.
std::optional<TrainerId> ParseTrainerName(absl::string_view name);

// Whether the id can be part of a file name: the job is 1-63 of [a-z0-9-], the generation at least
// 1, the rank at least 0.
bool IsValid(const TrainerId& id);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_NODE_PATHS_H_
