// Samples per optimizer step of a whole job: ranks x batch_per_rank x accumulation_steps.
#ifndef CLI_VIEW_GLOBAL_BATCH_H_
#define CLI_VIEW_GLOBAL_BATCH_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace paceline {

int64_t GlobalBatch(const v1::JobSpec& spec);

// What a resumption changes the global batch to, and which flags that `request` leaves out would
// keep it; empty when it stays as it was. `after`: the spec with the changes.
std::string BatchChangeText(const v1::JobSpec& before, const v1::JobSpec& after,
                            const v1::ResumeJobRequest& request);

}  // namespace paceline

#endif  // CLI_VIEW_GLOBAL_BATCH_H_
