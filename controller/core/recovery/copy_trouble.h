// Whether copies in host memory (copies.h) are made as they should be. A job has one trouble with
// them at a time, of one cause, which is the first of these that is there:
//
//   kLeftOut  trainers of an earlier release know no copies: the generation makes none
//   kFailed   a member's copy has failed, all have done with that step, and it has made none since
//   kLate     without newer ones, or a newer checkpoint, a loss would cost kLateIntervals times
//             copy_every_steps
//
//                     left out, failed, late            another cause: left out, or failed
//           kNone ───────────────────────────▶ trouble ──────────────────────────────────▶ trouble
//             ▲                                   │
//             ╰──── the present generation's ─────╯
//                   newest copies are complete, and after kLate at most one interval old
//
// Each arrow is an event of the job. So copies that are also late while they fail are not told of
// again, and copies that always take long are not late again and again.
#ifndef CONTROLLER_CORE_RECOVERY_COPY_TROUBLE_H_
#define CONTROLLER_CORE_RECOVERY_COPY_TROUBLE_H_

#include <cstdint>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

inline constexpr int64_t kLateIntervals = 4;

// Brings JobCopies::trouble up to date. Asked at each report of a rank.
JobChange NoteCopyTrouble(Job& job);

// For people, while there is trouble: its cause, what a loss would cost, and what to do; else
// empty.
std::string DescribeCopyTrouble(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_COPY_TROUBLE_H_
