#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;
using google::protobuf::FieldDescriptor;

// Without a directory there is nothing that the other values could be about.
void CheckNothingGiven(const v1::CheckpointPolicy& checkpoint, ProblemList& problems) {
  std::vector<const FieldDescriptor*> given;
  checkpoint.GetReflection()->ListFields(checkpoint, &given);
  for (const FieldDescriptor* field : given) {
    problems.Add(StrCat("checkpoint.", field->name()),
                 "needs checkpoint.directory, which is missing");
  }
}

}  // namespace

void CheckCheckpoint(const v1::CheckpointPolicy& checkpoint, ProblemList& problems) {
  if (checkpoint.directory().empty()) return CheckNothingGiven(checkpoint, problems);
  problems.CheckAtLeast("checkpoint.every_steps", checkpoint.every_steps(), 0);
  problems.CheckFiniteAtLeast("checkpoint.every_s", checkpoint.every_s(), 0);
  if (checkpoint.auto_interval() && checkpoint.every_s() > 0) {
    problems.Add("checkpoint.auto_interval",
                 StrCat("is true, but every_s says already that it is every ", checkpoint.every_s(),
                        " s; give one of them"));
  }
  problems.CheckAtLeast("checkpoint.keep_latest", checkpoint.keep_latest(), 0);
  problems.CheckAtLeast("checkpoint.keep_every", checkpoint.keep_every(), 0);
  problems.CheckEnum("checkpoint.when_busy", checkpoint.when_busy(), *v1::WhenBusy_descriptor());
  problems.CheckFiniteAtLeast("checkpoint.write_limit_mb_s", checkpoint.write_limit_mb_s(), 0);
  problems.CheckEnum("checkpoint.on_damage", checkpoint.on_damage(), *v1::OnDamage_descriptor());
}

void CheckResumption(const v1::JobSpec& spec, ProblemList& problems) {
  problems.CheckAtLeast("max_restarts", spec.max_restarts(), 0);
  if (!spec.resume_from().empty() && !spec.init_from().empty()) {
    problems.Add("resume_from",
                 "is given beside init_from, but a checkpoint has the weights too; give one of "
                 "them");
  }
}

}  // namespace paceline
