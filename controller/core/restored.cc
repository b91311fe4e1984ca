#include "controller/core/restored.h"

#include <algorithm>

#include "controller/core/job_checkpoints.h"

namespace paceline {

void TakeUpAfterRestoration(Job& job, Generation used, Moment now) {
  job.generations_used = std::max(job.generations_used, used);
  RequeueJob(job, kRestoredReason, kDefaultCancelGrace, now);
  // One that is stopping has its directory looked through when it has stopped.
  if (job.state == JobState::kQueued && SavesCheckpoints(job.request)) {
    job.checkpoints.settlement = Settlement{NewestUsed(job), "", now.steady + kSettlementPatience};
  }
}

}  // namespace paceline
