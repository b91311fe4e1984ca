// Lists the paths that a job makes a node open.
#ifndef WORKER_DAEMON_STATE_JOB_PATHS_H_
#define WORKER_DAEMON_STATE_JOB_PATHS_H_

#include <string>
#include <utility>
#include <vector>

#include "common/core/compiled_files.h"
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
           NamedPath{"model.file", spec.model().compiled().file()},
           NamedPath{"init_from", spec.init_from()},
           NamedPath{"export_final", spec.export_final()},
           NamedPath{"checkpoint.directory", spec.checkpoint().directory()},
           NamedPath{"working_directory", spec.working_directory()},
           NamedPath{"venv", spec.venv()},
           NamedPath{"resume_from", plan.restore_from()},
       }) {
    if (!named.path.empty()) given.push_back(named);
  }
  if (spec.model().has_compiled()) {
    given.push_back({"model.file", CompiledWeightsOf(spec.model().compiled().file())});
  }
  const auto add_data = [&](std::string key, const std::string& path) {
    if (!path.empty() && !IsObjectUrl(path)) given.push_back({std::move(key), path});
  };
  add_data("data.train", spec.data().train());
  add_data("data.eval", spec.data().eval());
  for (int i = 0; i < spec.data().sources_size(); ++i) {
    add_data("data.train[" + std::to_string(i) + "].path", spec.data().sources(i).path());
  }
  return given;
}

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_JOB_PATHS_H_
