// Everything that a trainer is told, free of protobuf and torch, which must not meet in one
// file: config_from_proto fills it, the training code reads it.
#ifndef WORKER_TRAINER_CONFIG_H_
#define WORKER_TRAINER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "worker/trainer/core/lr_schedule.h"

namespace paceline {

struct ModelConfig {
  enum class Kind { kResNet18, kMlp };
  Kind kind = Kind::kResNet18;
  std::vector<int64_t> hidden;  // Widths of the hidden layers of a kMlp.
};

struct OptimizerConfig {
  enum class Kind { kSgd, kAdamW };
  Kind kind = Kind::kSgd;
  double weight_decay = 0;
  double momentum = 0;    // kSgd.
  bool nesterov = false;  // kSgd.
  double beta1 = 0.9;     // kAdamW.
  double beta2 = 0.999;   // kAdamW.
  double epsilon = 1e-8;  // kAdamW.
};

// A failure to inject into this rank before a step.
struct FaultConfig {
  enum class Kind { kThrow, kAbort, kExit, kOutOfMemory, kSleep };
  Kind kind = Kind::kThrow;
  int64_t step = 0;
  absl::Duration duration;  // kSleep.
};

struct TrainerConfig {
  TrainerId id;
  int world_size = 1;
  int place = 0;  // On its node; the index of its GPU.
  int threads = 1;
  std::string interface;  // Network interface or address; empty: found by host name.

  bool cuda = false;
  bool bf16 = false;
  ModelConfig model;
  std::string train_data;
  std::string eval_data;  // Empty: no evaluation.
  bool shuffle = true;
  int64_t batch = 1;  // Samples per rank and step.
  int64_t steps = 1;
  OptimizerConfig optimizer;
  LrSchedule schedule;
  uint64_t seed = 0;
  int64_t eval_every = 0;            // 0: at the end only.
  std::string checkpoint_directory;  // Empty: nothing is written.
  std::string init_from;             // Empty: initialised from the seed.
  int64_t log_every = 10;
  absl::Duration collective_timeout = absl::Seconds(300);
  std::vector<FaultConfig> faults;  // Of this rank.

  int rank() const { return id.rank.value(); }
  // Requires: checkpoint_directory is not empty.
  std::string output_directory() const { return checkpoint_directory + "/" + id.job.value(); }
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_H_
