// How much it matters to a job that one of its trainers tells something new of itself.
#ifndef CONTROLLER_CORE_REPORT_CHANGE_H_
#define CONTROLLER_CORE_REPORT_CHANGE_H_

#include "controller/core/job.h"

namespace paceline {

// Of reports that follow each other, when neither the job's state nor its store's address changes
// by the second. Thousands of members change one after the other, and no plan of others follows
// from one alone, unless it is lost (what else does, membership.h and saving.h tell by themselves).
// While they start, a new controller hears of them from their nodes: not so of ends, whose node may
// be gone by then. docs/decisions/0028-what-one-rank-changes.md.
JobChange ChangeByOne(JobState state, bool is_member, const TrainerReport& before,
                      const TrainerReport& after);

}  // namespace paceline

#endif  // CONTROLLER_CORE_REPORT_CHANGE_H_
