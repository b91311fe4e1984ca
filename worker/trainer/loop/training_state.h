// What a rank has of the training besides model and optimizer, and keeps from one generation of its
// job to the next.
#ifndef WORKER_TRAINER_LOOP_TRAINING_STATE_H_
#define WORKER_TRAINER_LOOP_TRAINING_STATE_H_

#include <cstdint>
#include <memory>

#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/meeting.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/report/progress_report.h"
#include "worker/trainer/slipstream/slipstream.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// Which saves a rank has dealt with.
struct SaverMemory {
  bool due = false;        // One by steps waits until the ranks are equal.
  int64_t last_order = 0;  // Number of the newest order for which a save began.
  int64_t last_saved = 0;  // Step of the latest save that began, or of the restore.
};

struct TrainingState {
  RankPosition position;
  DataPosition data;       // Behind the steps done.
  Member member;           // Of the generation that it trained in last.
  Member alone_as;         // How data is taken for steps below position.alone_below.
  bool regrouped = false;  // The groups of the present generation are others than its.
  StrategyMemory memory;   // Of the strategy of the generation before.
  CommunicationSeconds communication;
  SlipstreamMemory slipstream;
  // With Slipstream: the position of ranks that had kept together, after so many steps of the job.
  // The same on all ranks.
  DataPosition together;
  int64_t together_steps = 0;
  SaverMemory saver;
  int exported_as = -1;  // The rank under which the weights were exported at the end.

  bool in_step = false;  // One has begun and is not done.
  // A step that is computed, and perhaps done, but not ended: its data and result.
  bool is_open = false;
  DataPosition open_data;
  StepResult open_result;

  // Of a restore; null: training starts over. Let go of when training begins.
  std::unique_ptr<StateReader> checkpoint;
  CheckpointFigures figures;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINING_STATE_H_
