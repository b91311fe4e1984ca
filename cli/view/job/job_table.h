// Tables of jobs, one row each.
#ifndef CLI_VIEW_JOB_JOB_TABLE_H_
#define CLI_VIEW_JOB_JOB_TABLE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "proto/job.pb.h"

namespace paceline {

// Keeps the order of `jobs`. Wide: also queue, model, nodes, restarts, age and labels.
std::string JobTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style);

// One row per queue with jobs that have not ended, by name: how many wait and how many train, the
// ranks that the latter have, how long the oldest has waited, and why.
std::string QueueTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style);

// Queue of a job; "default" if its spec names none.
std::string QueueOf(const v1::Job& job);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_JOB_TABLE_H_
