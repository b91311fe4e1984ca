// Many jobs, a row each.
#ifndef CLI_VIEW_JOB_JOB_TABLE_H_
#define CLI_VIEW_JOB_JOB_TABLE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "proto/job.pb.h"

namespace paceline {

// In this order. Wide: queue, model, nodes, restarts and age too.
std::string JobTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style);

// One row for each queue that has jobs that have not ended, by name: how many wait and train, the
// ranks of the latter, and how long the oldest has waited, and why.
std::string QueueTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style);

// The queue of a job; "default" where its spec names none.
std::string QueueOf(const v1::Job& job);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_JOB_TABLE_H_
