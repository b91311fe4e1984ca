// Everything that a trainer is told, free of protobuf and torch, which must not meet in one
// file: config_from_proto fills it, the training code reads it. Fields mean what those of
// proto/job_spec.proto and proto/plan.proto with the same names mean.
#ifndef WORKER_TRAINER_CONFIG_H_
#define WORKER_TRAINER_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "slipstream/plan.h"
#include "worker/trainer/core/lr_schedule.h"

namespace paceline {

// All sizes are set.
struct LlamaConfig {
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn_dim = 0;
  int64_t vocab_size = 0;
  double rope_theta = 0;
  double norm_epsilon = 1e-5;
  bool tie_embeddings = false;
  bool checkpoint_activations = false;
};

struct ModelConfig {
  enum class Kind { kResNet18, kMlp, kLlama, kTorchScript };
  Kind kind = Kind::kResNet18;
  bool sync_batchnorm = false;     // kResNet18.
  std::vector<int64_t> hidden;     // kMlp: widths of the hidden layers.
  LlamaConfig llama;               // kLlama.
  std::string torchscript_file;    // kTorchScript.
  bool unused_parameters = false;  // kTorchScript: a step may leave some out.
};

struct DataConfig {
  enum class TokenType { kInHeader, kUint16, kUint32 };
  std::string train;
  std::string eval;  // Empty: no evaluation.
  bool shuffle = true;
  int64_t sequence_length = 256;  // Of token files.
  TokenType token_type = TokenType::kInHeader;
  int64_t vocab_size = 0;  // Of the llama that is trained: every token is less; 0: any token.
  int prefetch_threads = 1;
  int prefetch_batches = 2;
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

enum class WireFormat { kFp32, kFp16, kBf16, kInt8 };

// One level of a ladder. Groups are consecutive ranks: their sizes add up to the world size.
struct PlanLevel {
  int64_t period = 1;
  std::vector<int> groups;
  WireFormat format = WireFormat::kFp32;
};

// proto/plan.proto, TrainingPlan.
struct TrainingPlan {
  int64_t epoch = 0;
  std::vector<PlanLevel> levels;
  std::vector<int> gradient_groups;          // After the warm-up; empty: none.
  std::optional<SlipstreamPlan> slipstream;  // Of this epoch; unset: another strategy.
};

struct StrategyConfig {
  // kAuto: of the process; its generations are kDdp or kSlipstream, as their plans say.
  enum class Kind { kDdp, kLocalSgd, kHsgd, kSlipstream, kAuto };
  Kind kind = Kind::kDdp;
  int64_t warmup_steps = 0;
  bool average_optimizer_state = false;
};

// A profile that a rank shall make. proto/plan.proto, ProfileRequest.
struct ProfileRequest {
  int64_t id = 0;
  int64_t first_step = 0;
  int steps = 0;
  bool memory = false;
};

// A disturbance on purpose. proto/job_spec.proto, Fault.
struct FaultConfig {
  enum class Kind {
    kThrow,
    kAbort,
    kExit,
    kOutOfMemory,
    kSleep,
    kNanLoss,
    kSlow,
    kLoaderStall,
    kCommunicationDelay,
    kMemoryGrowth,
    kFreeze,
    kFlipBit,
  };
  Kind kind = Kind::kThrow;
  int rank = -1;           // -1: each.
  int64_t generation = 0;  // 0: each.
  int64_t step = 0;
  int64_t steps = 1;
  double probability = 1;
  absl::Duration duration;  // kSleep, kLoaderStall, kCommunicationDelay.
  double factor = 1;        // kSlow.
  int64_t bytes = 0;        // kMemoryGrowth.
  std::string until_file;   // Over when it is there. Empty: never.
};

enum class NonFinite { kStop, kSkip, kIgnore };

struct CheckpointConfig {
  std::string directory;  // Empty: nothing is written.
  int64_t every_steps = 0;
  bool expected = false;  // Saves will come: by steps, by time or at the end.
  bool at_end = false;
  bool wait_when_busy = false;     // Else a save is left out.
  double write_limit = 0;          // Bytes per second; 0: none.
  std::vector<std::string> roots;  // Directories lie below one of these; none: anywhere.
};

// proto/plan.proto, SaveOrder.
struct SaveOrder {
  int64_t number = 0;  // 0: none.
  bool now = false;
};

// proto/plan.proto, CheckpointPlan.
struct CheckpointPlan {
  struct Commit {
    int64_t step = 0;
    std::optional<int64_t> order;  // Unset: whichever it was; the controller is an older one.

    bool operator==(const Commit& other) const {
      return step == other.step && order == other.order;
    }
  };

  SaveOrder save;
  std::vector<Commit> commits;
  std::map<int64_t, std::string> directories;  // By the number of an order that names one.
};

// What a trainer is in one generation of its job.
struct Member {
  int64_t generation = 1;
  int rank = 0;  // -1: none of its ranks.
  int world_size = 1;
  int64_t batch = 1;               // Samples per rank and forward pass.
  int64_t accumulation_steps = 1;  // Forward passes per step.

  int64_t samples_per_step() const { return batch * accumulation_steps; }  // Of this rank.
  bool operator==(const Member& other) const {
    return generation == other.generation && rank == other.rank && world_size == other.world_size &&
           batch == other.batch && accumulation_steps == other.accumulation_steps;
  }
};

// proto/plan.proto, Membership.
struct Assignment {
  Member member;
  std::string store_address;  // Empty until it is known.
  bool planned = false;
  TrainingPlan plan;  // The newest when this came.
};

// proto/job_spec.proto, Recovery.
struct RecoveryConfig {
  bool enabled = false;
  absl::Duration give_up = absl::Seconds(600);
};

// All but `member` is constant for the life of the process.
struct TrainerConfig {
  TrainerId id;   // Names the process, and nothing else.
  Member member;  // Of the generation that the configuration is for.
  int place = 0;  // On its node; the index of its GPU.
  int threads = 1;
  std::string interface;  // Network interface or address; empty: found by host name.

  bool cuda = false;
  bool bf16 = false;
  ModelConfig model;
  DataConfig data;
  int64_t steps = 1;
  OptimizerConfig optimizer;
  LrSchedule schedule;
  StrategyConfig strategy;
  WireFormat gradient_format = WireFormat::kFp32;
  double clip_grad_norm = 0;  // 0: never.
  NonFinite on_nonfinite = NonFinite::kStop;
  uint64_t seed = 0;
  int64_t eval_every = 0;  // 0: at the end only.
  CheckpointConfig checkpoint;
  std::string restore_from;  // Directory of a checkpoint; empty: a new training.
  std::string spec_json;     // The whole job spec, for the record.
  std::string init_from;     // Empty: initialised from the seed.
  std::string export_final;  // Empty: nothing is written.
  bool save_nan = false;     // Else a save or export with NaN in it fails.
  int64_t log_every = 10;
  absl::Duration startup_timeout = absl::Seconds(900);
  absl::Duration collective_timeout = absl::Seconds(300);
  double peak_flops = 0;  // 0: from the table.
  bool cuda_graph = false;
  std::vector<FaultConfig> chaos;  // Of all ranks.
  RecoveryConfig recovery;

  int rank() const { return member.rank; }
  // Below checkpoint.directory, which is not empty; or below a directory that an order names.
  std::string output_directory() const { return JobDirectoryIn(checkpoint.directory); }
  std::string JobDirectoryIn(const std::string& base) const { return base + "/" + id.job.value(); }
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_H_
