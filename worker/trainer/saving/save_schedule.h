// When the ranks of a generation save, where each step's exchange may leave them equal.
//
// A save is due by steps, at the step that the ranks have agreed on for an order
// (comm/save_agreement.h), and after the last step. It takes place after the first step from then
// on after which all ranks are equal; an order for now makes them equal.
//
// One training thread; Propose: any thread. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_SAVING_SAVE_SCHEDULE_H_
#define WORKER_TRAINER_SAVING_SAVE_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/save_agreement.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/saving/saver.h"

namespace paceline {

class SaveSchedule {
 public:
  // All of it outlives this.
  struct Parts {
    const CheckpointConfig& config;
    int64_t steps;  // Of the whole training.
    Groups& groups;
    Saver& saver;  // Enters the generation after this is made, and leaves it before its end.
    SaverMemory& memory;
    std::function<void()> make_equal;  // All ranks. Collective.
  };

  // Training goes on after `steps_done` steps.
  SaveSchedule(const Parts& parts, int64_t steps_done);
  // Waits for an agreement that is under way.
  ~SaveSchedule();

  // As SaveAgreement.
  void Propose(const SaveOrder& order);

  // After each step; `all_equal`: the ranks' parameters. True when a save began, or something else
  // than a step took time.
  bool AfterStep(int64_t steps_done, bool all_equal);

  // After the last step, when all ranks are equal: the save at the end, if one is due.
  void SaveAtEnd(int64_t steps_done);

 private:
  struct Due {
    int64_t order;  // 0: of the spec.
    bool now;
  };

  const Parts parts_;
  std::optional<Due> due_;
  SaveAgreement agreement_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVING_SAVE_SCHEDULE_H_
