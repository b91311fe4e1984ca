// What a rank keeps of the training, besides model and optimizer, from one generation to the next.
#ifndef WORKER_TRAINER_LOOP_TRAINING_STATE_H_
#define WORKER_TRAINER_LOOP_TRAINING_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/rendezvous.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/core/save_count.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/report/progress_report.h"
#include "worker/trainer/slipstream/slipstream.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// The saves that a rank has dealt with.
struct SaverMemory {
  SaveCount by_steps;      // Those due by steps; one that is due waits until ranks are equal.
  bool asked = false;      // A save is due after the step under way (TrainerRun::AskForSave).
  int64_t last_order = 0;  // The newest order for which a save began.
  int64_t last_saved = 0;  // Step of the latest save begun, or of the restore.
};

struct TrainingState {
  RankPosition position;
  DataPosition data;       // Position behind the steps done.
  Member member;           // In the generation it trained in last.
  Member alone_as;         // How data is taken below position.alone_below.
  bool regrouped = false;  // The present generation's groups differ from the last.
  int64_t furthest = 0;    // Most steps that a member had done when they met.
  StrategyMemory memory;   // From the previous generation's strategy.
  CommunicationSeconds communication;
  std::vector<ReportedNumber> reported;  // By the caller's code (TrainerRun::Report).
  bool has_begun = false;                // The process has begun a step.
  SlipstreamMemory slipstream;
  // With Slipstream: the data position of ranks that had kept together, after so many steps of the
  // job. Equal on all ranks.
  DataPosition together;
  int64_t together_steps = 0;
  SaverMemory saver;
  int exported_as = -1;  // Rank under which the final weights were exported.
  int64_t profiled = 0;  // The newest profile request that was dealt with.

  bool in_step = false;  // A step has begun and is not done.
  // A step was computed, and perhaps done, but not ended: its data and result.
  bool is_open = false;
  DataPosition open_data;
  StepResult open_result;

  // With shards: the limit to which the gradients of the step under way must yet be clipped, 0 for
  // none, and the norm of the whole model's in the latest step done.
  double max_norm = 0;
  double word_norm = 0;

  // Checkpoint to restore; null: a new training. Reset when training begins.
  std::unique_ptr<StateReader> checkpoint;
  CheckpointFigures figures;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINING_STATE_H_
