// What the verbs that change a job's plan have in common: showing it, and waiting for it.
#ifndef CLI_VERBS_PLAN_CHANGE_H_
#define CLI_VERBS_PLAN_CHANGE_H_

#include <string>

#include "cli/program.h"
#include "proto/job.pb.h"

namespace paceline {

// "digits (job-...): hsgd 2:2,8:all, epoch 2, since step 128", or as JSON.
int ShowPlan(Program& program, const v1::Job& job);

// The same of the job by its id or name.
int ShowPlanOf(Program& program, const std::string& job);

// Until all ranks train by the job's epoch, or one could not prepare it; then shows it.
int AwaitPlan(Program& program, v1::Job job);

}  // namespace paceline

#endif  // CLI_VERBS_PLAN_CHANGE_H_
