// What a job's ledger of samples consists of: runs of steps of one rank, each with the few numbers
// that its samples follow from.
//
// A rank's run grows by a step at a time, as long as each begins in the data where the one before
// has ended: a generation is one run. A record is a run as 128 bytes with a checksum, so that none
// crosses a sector of a disk, and rewriting the newest one in its place leaves the former or the
// new one.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_SAMPLE_RUN_H_
#define WORKER_TRAINER_CORE_SAMPLE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/trainer/core/sampler.h"

namespace paceline {

inline constexpr size_t kRunBytes = 128;

struct SampleRun {
  int64_t generation = 0;  // In which the steps were made.
  int64_t parent = 0;      // The generation from whose state it went on; 0: none of this job.
  int64_t since = 0;       // Step from which on all ranks of the generation train together.
  // Whose samples they are: this rank's of so many. After a loss, a rank that makes steps up takes
  // the samples that it had in the generation before.
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t batch = 1;   // Samples of a rank and pass.
  int32_t passes = 1;  // Of a step.
  // The ranks whose gradients are in these steps: all of them have made the steps, too, with their
  // own samples.
  int32_t with_first = 0;
  int32_t with_size = 1;
  int64_t first_step = 0;  // From 0.
  int64_t steps = 0;       // 0: the rank has only begun.
  DataPosition begin;      // Before the first step,
  DataPosition end;        // and behind the last.
  // The order that positions are of. samples 0: nobody knows which samples the steps had, as the
  // script did not take them from run.loader.
  int64_t samples = 0;
  uint64_t seed = 0;
  bool shuffle = true;
};

// How `rank` takes the samples of the run's data.
Sampler::Options SamplingOf(const SampleRun& run, int rank);

// The position behind one step from `begin` on. Requires: samples are known.
DataPosition PositionAfterStep(const SampleRun& run);

// Whether `next` continues the run; then makes it part of it.
bool Extend(SampleRun* run, const SampleRun& next);

std::string EncodeRun(const SampleRun& run);
// Nothing unless `record` is a whole record, undamaged and sound.
std::optional<SampleRun> DecodeRun(absl::string_view record);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SAMPLE_RUN_H_
