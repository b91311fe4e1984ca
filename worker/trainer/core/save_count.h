// Counts the saves that are due by steps (checkpoint.every_steps), alike on all ranks.
//
// Each rank counts after each step that it has ended. When a generation is cut off, ranks may be
// several steps apart, and a step may be done but not counted: its exchange was cut off. So the
// members of the next generation count together, when they meet, all steps that any of them has
// done, and each by itself only those above:
//
//   rank 0   counted ────────────────▌ done, cut off before it was counted
//   rank 1   counted ─────────▌        behind: it makes these steps again, and does not count them
//                     └ together ─┘ └─ each by itself, in the next generation
//
// A save that became due in a step that some rank had not counted was not begun by that rank, so it
// is due again. So is one that all had begun, and that was not complete when their generation
// ended: no rank knows that, so the controller says from which step on they count again.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_SAVE_COUNT_H_
#define WORKER_TRAINER_CORE_SAVE_COUNT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline {

struct SaveCount {
  bool due = false;     // A save is due and has not begun.
  int64_t counted = 0;  // Steps up to this one are counted; at first, those of the checkpoint.

  // Counts the steps up to `steps_done`. `every`: steps from one save to the next; 0: none is due.
  void CountTo(int64_t steps_done, int64_t every) {
    if (steps_done <= counted) return;
    if (every > 0 && steps_done / every > counted / every) due = true;
    counted = steps_done;
  }

  // The newest complete checkpoint is of this step: later saves that have begun were given up with
  // their generation, so their steps are counted again.
  void CountFrom(int64_t saved_step) { counted = std::min(counted, saved_step); }
};

// What all members go on with. `reported`: by rank, with what they have from others;
// `furthest`: the most steps that one of them has done.
inline SaveCount AgreeOnSaves(const std::vector<SaveCount>& reported, int64_t every,
                              int64_t furthest) {
  SaveCount agreed;
  // Ranks that went back to earlier copies have counted more.
  agreed.counted = furthest;
  for (const SaveCount& one : reported) {
    agreed.due = agreed.due || one.due;
    agreed.counted = std::min(agreed.counted, one.counted);
  }
  agreed.CountTo(furthest, every);
  return agreed;
}

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SAVE_COUNT_H_
