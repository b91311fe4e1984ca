// Everything that a trainer is told, without protobuf and torch, which must not meet in one file:
// config_from_proto fills it, the training code reads it. Fields mean the same as those of the same
// names in proto/job_spec.proto and proto/plan.proto.
#ifndef WORKER_TRAINER_CONFIG_H_
#define WORKER_TRAINER_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/lanes.h"
#include "slipstream/plan.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/core/outer_rule.h"

namespace paceline {

// All sizes must be set.
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
  enum class Kind { kResNet18, kMlp, kLlama, kTorchScript, kCompiled };
  Kind kind = Kind::kResNet18;
  bool sync_batchnorm = false;     // For kResNet18.
  std::vector<int64_t> hidden;     // For kMlp: widths of the hidden layers.
  LlamaConfig llama;               // For kLlama.
  std::string torchscript_file;    // For kTorchScript.
  std::string compiled_file;       // For kCompiled.
  bool unused_parameters = false;  // For kTorchScript: a step may leave some out.
};

// proto/trainer.proto, ObjectStores.
struct ObjectStoreConfig {
  std::vector<std::string> allowed;  // Prefixes of objects that may be read; empty: none may be.
  std::string cache_directory;       // Empty: no cache.
  int64_t cache_bytes = 0;
};

struct DataConfig {
  enum class TokenType { kInHeader, kUint16, kUint32 };
  struct Source {
    std::string path;
    double weight = 0;  // 0: none of the sources has one, and they are one data set.
    std::string hash;   // As the job was submitted with; empty: not known.
  };
  std::string train;            // Empty with sources.
  std::string train_hash;       // Of `train`, as a source's.
  std::vector<Source> sources;  // One behind the other.
  std::string eval;             // Empty: no evaluation.
  bool shuffle = true;
  bool drop_last = true;
  int64_t sequence_length = 256;  // For token files.
  TokenType token_type = TokenType::kInHeader;
  int64_t vocab_size = 0;  // The llama's: all tokens must be less; 0: any token.
  int prefetch_threads = 1;
  int prefetch_batches = 2;
  ObjectStoreConfig object_stores;  // Of the node.
};

struct OptimizerConfig {
  enum class Kind { kSgd, kAdamW };
  Kind kind = Kind::kSgd;
  double weight_decay = 0;
  double momentum = 0;    // For kSgd.
  bool nesterov = false;  // For kSgd.
  double beta1 = 0.9;     // For kAdamW.
  double beta2 = 0.999;   // For kAdamW.
  double epsilon = 1e-8;  // For kAdamW.
  // Parameters, gradients and state are bfloat16, and each parameter has a compensation of its
  // rounding. Implies TrainerConfig::bf16.
  bool compensated = false;
};

enum class WireFormat { kFp32, kFp16, kBf16, kInt8, kFp8, kInt4 };

// One level of a ladder. Groups are consecutive ranks; their sizes add up to the world size. In a
// job with shards these are replicas; so are those of gradient_groups below.
struct PlanLevel {
  int64_t period = 1;
  std::vector<int> groups;
  WireFormat format = WireFormat::kFp32;
  std::optional<OuterRule> outer = {};  // Unset: ranks go on from the mean.
};

// proto/plan.proto, TrainingPlan.
struct TrainingPlan {
  int64_t version = 0;
  std::vector<PlanLevel> levels;
  std::vector<int> gradient_groups;          // After the warm-up; empty: none.
  std::optional<SlipstreamPlan> slipstream;  // Unset: another strategy.
};

struct StrategyConfig {
  // kAuto is the process's; its generations are kDdp or kSlipstream, as their plans say.
  enum class Kind { kDdp, kLocalSgd, kHsgd, kSlipstream, kAuto };
  Kind kind = Kind::kDdp;
  int64_t warmup_steps = 0;
  bool average_optimizer_state = false;
};

// A profile that a rank should make. proto/plan.proto, ProfileRequest.
struct ProfileRequest {
  int64_t id = 0;
  int64_t first_step = 0;
  int steps = 0;
  bool memory = false;
};

// An intentional disturbance. proto/job_spec.proto, Fault.
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
    kKill,
  };
  Kind kind = Kind::kThrow;
  int rank = -1;           // -1: all ranks.
  int64_t generation = 0;  // 0: all generations.
  int64_t step = 0;
  int64_t steps = 1;
  double probability = 1;
  absl::Duration duration;  // For kSleep, kLoaderStall, kCommunicationDelay.
  double factor = 1;        // For kSlow.
  int64_t bytes = 0;        // For kMemoryGrowth.
  std::string until_file;   // The fault ends when this file exists; empty: never.
};

enum class NonFinite { kStop, kSkip, kIgnore };

struct CheckpointConfig {
  std::string directory;  // Empty: nothing is written.
  int64_t every_steps = 0;
  bool expected = false;  // There will be saves: by steps, by time or at the end.
  bool at_end = false;
  bool wait_when_busy = false;     // Otherwise a save is skipped then.
  double write_limit = 0;          // Bytes per second; 0: none.
  bool sample_ledger = false;      // It is kept which samples entered which step.
  std::vector<std::string> roots;  // Save only below these; empty: anywhere.
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
    std::optional<int64_t> order;  // Unset: unknown, from an older controller.

    bool operator==(const Commit& other) const {
      return step == other.step && order == other.order;
    }
  };

  SaveOrder save;
  std::vector<Commit> commits;
  std::map<int64_t, std::string> directories;  // By the number of an order that names one.
};

// A trainer's part in one generation of its job.
struct Member {
  int64_t generation = 1;
  int rank = 0;  // -1: not a rank.
  int world_size = 1;
  int shards = 1;                  // Ranks of one replica of the model (common/core/lanes.h).
  int64_t batch = 1;               // Samples per rank and forward pass.
  int64_t accumulation_steps = 1;  // Forward passes per step.

  int64_t samples_per_step() const { return batch * accumulation_steps; }  // Of this rank.
  Lanes lanes() const { return Lanes{shards}; }
  bool operator==(const Member& other) const {
    return generation == other.generation && rank == other.rank && world_size == other.world_size &&
           shards == other.shards && batch == other.batch &&
           accumulation_steps == other.accumulation_steps;
  }
};

// A number of ranks that the job may have.
struct JobSize {
  int ranks = 1;
  int64_t batch = 1;  // As Member::batch.
  int together = 0;   // Of these, that share gradients at each step, at least; 0: all.
};

// proto/plan.proto, Membership.
struct Assignment {
  Member member;
  std::string store_address;  // Empty until known.
  bool planned = false;
  // Set for the two sides of a hand-over: the rank that one takes from the other.
  std::optional<int> hand_over_rank = {};
  TrainingPlan plan;                      // The newest plan when this arrived.
  std::optional<CopyOrders> copies = {};  // Unset: the member has no part in copies.
  // Members of the generation before take the mean of their parameters when they leave it for this.
  bool averages_first = false;
  // Steps done at the newest complete checkpoint; unset: not known.
  std::optional<int64_t> saved_step = {};
};

// proto/job_spec.proto, Recovery.
struct RecoveryConfig {
  bool enabled = false;
  absl::Duration give_up = absl::Seconds(600);
  int64_t copy_every_steps = 0;  // 0: the ranks keep no copies.
};

// All but `member` and `mesh` is constant for the process's life.
struct TrainerConfig {
  TrainerId id;   // Only names the process.
  Member member;  // In this configuration's generation.
  // Workload::mesh, from when the workload is known.
  std::vector<int> mesh;
  int slot = 0;  // On its node; for a GPU, its index.
  int threads = 1;
  std::string interface;  // Network interface or address; empty: found by host name.

  bool cuda = false;
  bool bf16 = false;   // Autocast in the forward and backward pass.
  int zero_stage = 2;  // With shards and a built-in model: 2 or 3.
  // The engine is called by a program of the user's own, which brings what these five say of a
  // built-in model; they have their defaults.
  bool session = false;
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  LrSchedule schedule;
  std::vector<JobSize> sizes;  // By ranks.
  int64_t steps = 1;
  StrategyConfig strategy;
  WireFormat gradient_format = WireFormat::kFp32;
  double clip_grad_norm = 0;  // 0: never.
  NonFinite on_nonfinite = NonFinite::kStop;
  uint64_t seed = 0;
  int64_t eval_every = 0;  // 0: only at the end. Whether there is an evaluation, the workload says.
  CheckpointConfig checkpoint;
  std::string restore_from;  // A checkpoint's directory; empty: a new training.
  // Among the ranks of the job on this node, which restore at the same time.
  int local_rank = 0;
  int local_world_size = 1;
  std::string spec_json;     // The job spec without its environment, for the record.
  std::string init_from;     // Empty: initialise from the seed.
  std::string export_final;  // Empty: no export.
  bool save_nan = false;     // Otherwise saves and exports with a NaN fail.
  int64_t log_every = 10;
  absl::Duration startup_timeout = absl::Seconds(900);
  absl::Duration collective_timeout = absl::Seconds(300);
  double peak_flops = 0;        // 0: look it up in the table.
  double flops_per_sample = 0;  // 0: by formula, or counted.
  bool count_flops = true;
  bool cuda_graph = false;
  bool updates_in_backward = false;  // As of the job spec.
  std::vector<FaultConfig> chaos;    // For all ranks.
  RecoveryConfig recovery;

  int rank() const { return member.rank; }
  // Below checkpoint.directory, which must be set, or below a directory named by an order.
  std::string output_directory() const { return JobDirectoryIn(checkpoint.directory); }
  std::string JobDirectoryIn(const std::string& base) const { return base + "/" + id.job.value(); }
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_H_
