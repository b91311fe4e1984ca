// Lists the paths that a job makes a node open.
#ifndef WORKER_DAEMON_STATE_JOB_PATHS_H_
#define WORKER_DAEMON_STATE_JOB_PATHS_H_

#include <string>
#include <vector>

#include "common/core/object_url.h"
#include "proto/worker.pb.h"
#include "worker/shim/allowed_roots.h"

namespace paceline {

// Returns the paths in a trainer's plan that are set, named by the job file's keys, without objects
// of stores, which the trainer judges. The plan's `restore_from` comes from "resume_from" or is a
// checkpoint of the job itself.
inline std::vector<NamedPath> PathsOf(const v1::TrainerPlan& plan) {
  const v1::JobSpec& spec = plan.spec();
  std::vector<NamedPath> given;
  for (const NamedPath& named : {
           NamedPath{"model.file", spec.model().torchscript().file()},
           NamedPath{"data.train", spec.data().train()},
           NamedPath{"data.eval", spec.data().eval()},
           NamedPath{"init_from", spec.init_from()},
           NamedPath{"export_final", spec.export_final()},
           NamedPath{"checkpoint.directory", spec.checkpoint().directory()},
           NamedPath{"working_directory", spec.working_directory()},
           NamedPath{"venv", spec.venv()},
           NamedPath{"resume_from", plan.restore_from()},
       }) {
    if (!named.path.empty() && !IsObjectUrl(named.path)) given.push_back(named);
  }
  for (int i = 0; i < spec.data().sources_size(); ++i) {
    const std::string& path = spec.data().sources(i).path();
    if (IsObjectUrl(path)) continue;
    given.push_back({"data.train[" + std::to_string(i) + "].path", path});
  }
  return given;
}

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_JOB_PATHS_H_
