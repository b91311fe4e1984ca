#include "worker/daemon/job_paths.h"

#include <string>

namespace paceline {

std::vector<NamedPath> PathsOf(const v1::TrainerPlan& plan) {
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
    if (!named.path.empty()) given.push_back(named);
  }
  return given;
}

}  // namespace paceline
