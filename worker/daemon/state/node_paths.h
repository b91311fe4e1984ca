// Where the files of a node lie.
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

// Behind the job's id, in the name of the folder of its code.
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

// The opposite; nothing when it is no such name.
std::optional<TrainerId> ParseTrainerName(absl::string_view name);

// Whether the id may become part of a file's name: a job of 1-63 of [a-z0-9-], a generation
// from 1, a rank from 0.
bool IsValid(const TrainerId& id);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_NODE_PATHS_H_
