// What a rank reports about itself besides its step records, without protobuf and torch. Fields
// mean the same as those of the same names in proto/status.proto and proto/plan.proto.
#ifndef WORKER_TRAINER_REPORT_FIGURES_H_
#define WORKER_TRAINER_REPORT_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/plan.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/core/model_flops.h"

namespace paceline {

// The result of an evaluation over all ranks.
struct EvaluationResult {
  int64_t step = 0;                // Steps completed.
  std::optional<double> accuracy;  // 0 to 1. Unset: no predictions.
  double loss = 0;                 // Mean over the predictions.
  int64_t samples = 0;
};

struct PlanStatus {
  int64_t prepared_version = 0;
  int64_t active_version = 0;
  int64_t active_since_step = 0;
  std::string error;
  int64_t failed_version = 0;
};

struct MembershipStatus {
  int64_t generation = 0;
  bool waiting = false;
  std::string error;
  int64_t step = 0;
  int64_t ready_generation = 0;
  int64_t left_generation = 0;
  CopyReport copies;
};

struct ProfileResult {
  int64_t id = 0;
  std::string trace;
  std::string memory;
  int64_t first_step = 0;
  int steps = 0;
  int64_t trace_bytes = 0;
  double dump_s = 0;
  std::string error;
};

enum class SaveState { kWriting, kDurable, kCommitted, kFailed, kSkipped };
enum class SaveFailure { kNone, kNoSpace, kNoPermission, kIo, kNotAgreed, kInconsistent, kNan };

struct SaveStatus {
  int64_t step = 0;
  int64_t order = 0;
  SaveState state = SaveState::kWriting;
  int64_t bytes = 0;
  SaveFailure failure = SaveFailure::kNone;
  std::string error;
  int64_t generation = 0;
};

struct CheckpointFigures {
  int64_t saves = 0;
  int64_t bytes = 0;
  int64_t skipped = 0;
  std::map<SaveFailure, int64_t> failures;
  double staging_s = 0;
  double blocked_s = 0;
  double write_s = 0;
  int64_t commits = 0;
  double committing_s = 0;
  double last_blocked_s = 0;
  int64_t restored_step = 0;
  int64_t restored_bytes = 0;
  double restore_s = 0;
};

// A device's caching allocator, in bytes. Peaks are since the last reset.
struct DeviceMemory {
  int64_t active = 0;
  int64_t active_peak = 0;
  int64_t reserved = 0;
  int64_t reserved_peak = 0;
  int64_t small_pool = 0;  // Reserved bytes.
  int64_t large_pool = 0;
  int64_t capacity = 0;       // Of the device.
  int64_t alloc_retries = 0;  // Since the first step of the process.
  int64_t ooms = 0;
  int64_t small_pool_peak = 0;
  int64_t large_pool_peak = 0;
};

struct MemoryFigures {
  int64_t rss = 0;
  int64_t rss_peak = 0;
  double rss_slope = 0;
  std::optional<DeviceMemory> device;
};

// Communication over groups of one size since the start.
struct LevelFigures {
  int group_size = 0;
  bool gradients = false;
  int64_t count = 0;
  double seconds = 0;
  int64_t bytes = 0;
};

// Counts and seconds are totals since the process began to train with Slipstream.
struct SlipstreamFigures {
  SlipstreamMode mode = SlipstreamMode::kSync;
  int64_t rounds = 0;
  int64_t contributing_ranks = 0;  // Summed over the rounds.
  int64_t contributions = 0;       // Of this rank.
  int64_t stale_rounds = 0;        // Summed over the contributions.
  int64_t steps = 0;               // Of this rank.
  int64_t sent_updates = 0;
  int64_t lost_updates = 0;
  int64_t used_gradients = 0;
  int64_t dropped_gradients = 0;
  double window_s = 0;
  int64_t cap = 0;
  double cap_wait_s = 0;
  double round_wait_s = 0;
  double collective_s = 0;
  double drift = 0;
  int64_t stretched_rounds = 0;
  double round_collective_s = 0;
  double round_copies_s = 0;
  std::optional<double> loss;  // Mean over the job's steps in the latest round that had any. Sent
                               // as RankFigures::loss.
};

// A file or directory that the caller's code has made (proto/status.proto).
struct Artifact {
  std::string name;
  std::string path;
  bool directory = false;
  int64_t bytes = 0;
  std::string sha256;
  int64_t step = 0;
  int64_t time_us = 0;
  std::string error;
};

// The newest value of a number that the caller's code reports of its steps.
struct ReportedNumber {
  std::string name;
  double value = 0;
  int64_t step = 0;  // Steps completed, with the one that it is of.
};

// Reads of objects of stores (proto/status.proto).
struct ObjectFigures {
  int64_t fetched_bytes = 0;
  int64_t retries = 0;
  int64_t cached_reads = 0;
  int64_t waited_reads = 0;
  double wait_s = 0;
};

struct RankFigures {
  int64_t step = 0;
  int64_t steps = 0;
  double training_s = 0;
  double wall_s = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double samples_per_s = 0;
  double tokens_per_s = 0;
  std::optional<double> mfu;
  std::optional<double> mfu_wall;
  double data_wait_share = 0;
  MemoryFigures memory;
  std::vector<LevelFigures> levels;
  double drift = 0;
  int64_t skipped_steps = 0;
  std::optional<SlipstreamFigures> slipstream;
  std::vector<ReportedNumber> reported;
  double flops_per_sample = 0;
  double flops_per_s = 0;
  FlopsSource flops_source = FlopsSource::kUnknown;
  double peak_flops = 0;
  std::optional<ObjectFigures> objects;  // Unset: none are read.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_REPORT_FIGURES_H_
