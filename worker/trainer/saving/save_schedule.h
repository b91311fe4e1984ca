// Decides when a generation's ranks save, if the exchange of each step may leave them equal.
//
// A save is due by steps (core/save_count.h), after a step in which whoever makes the steps has
// asked for it, at the step that the ranks agreed on for an order (comm/save_agreement.h), and
// after the last step. It is made after the first step from then on that leaves all ranks equal, or
// with parameters in common (Strategy::CommonParameters); an order with `now` makes them equal.
//
// Used by one training thread; Propose: any thread. Torch's exceptions pass through.
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
  // All of these must outlive this object.
  struct Parts {
    const CheckpointConfig& config;
    int64_t steps;  // Of the whole training.
    Groups& groups;
    Saver& saver;  // Enters the generation after this is made; leaves before this ends.
    SaverMemory& memory;
    std::function<void()> make_equal;  // Makes all ranks equal. Collective.
  };

  // Training continues after `steps_done` steps.
  SaveSchedule(const Parts& parts, int64_t steps_done);
  // Waits for a running agreement.
  ~SaveSchedule();

  // See SaveAgreement.
  void Propose(const SaveOrder& order);

  // Call after each step. `all_equal`: whether the ranks have such parameters. True when a save
  // began, or something else took time.
  bool AfterStep(int64_t steps_done, bool all_equal);

  // Call after the last step, when all ranks are equal: makes the final save, if due.
  void SaveAtEnd(int64_t steps_done);

 private:
  struct Due {
    int64_t order;  // 0: due by the spec.
    bool now;
  };

  const Parts parts_;
  std::optional<Due> due_;
  SaveAgreement agreement_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVING_SAVE_SCHEDULE_H_
