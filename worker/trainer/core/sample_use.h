// Which samples entered which step of a job, from the runs in its ledger.
//
// A run is what a rank did. Of what it did, the job may have lost some: a rank that was lost had
// done a step that nobody else has, or all went back to a checkpoint. A rank writes, before the
// first step of a generation, from which step on that trains, and which generation it goes on from:
// the one in which its members have trained last, or the one that saved the checkpoint. So the rule
// is: all steps of the newest generation count, then those of its parent below the step at which
// it began, and so on to the parent's parent. A generation that nobody went on from does not count.
//
// A generation's first step is read per rank, as with local averaging ranks of other groups may be
// some steps apart (core/rendezvous.h); for a rank that the later generation does not have, it is
// the latest of all.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_SAMPLE_USE_H_
#define WORKER_TRAINER_CORE_SAMPLE_USE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/trainer/core/mixture.h"
#include "worker/trainer/core/sampler.h"

namespace paceline {

// A run of steps of one rank, with the few numbers that its samples follow from. It grows by a step
// at a time, as long as each begins in the data where the one before has ended: mostly, a
// generation is one run.
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
  bool drop_last = true;
  // Of `samples` samples. Null: the data is no mixture.
  std::shared_ptr<const Mixture> mixture;
};

// How `rank` takes the samples of the run's data.
Sampler::Options SamplingOf(const SampleRun& run, int rank);

// The position behind one step from `begin` on. Requires: samples are known.
DataPosition PositionAfterStep(const SampleRun& run);

// Whether `next` continues the run; then makes it part of it.
bool Extend(SampleRun* run, const SampleRun& next);

// The runs, cut to those steps that count; without those of no steps. By first step.
std::vector<SampleRun> CountedRuns(const std::vector<SampleRun>& runs);

// One step, with what is known of it.
struct StepUse {
  int64_t step = 0;
  SampleRun as;              // How samples are divided: begin is that of this step.
  std::vector<int> ranks;    // Whose samples are in it, of as.world_size.
  std::vector<int> missing;  // Ranks of which there is no record.

  bool is_known() const { return as.samples > 0; }
};

// Calls `each` for the steps in their order. A step is called twice if ranks had divided the data
// in different ways: ranks that joined while others made steps up. `counted`: of CountedRuns.
void ForEachStep(const std::vector<SampleRun>& counted,
                 const std::function<void(const StepUse& use)>& each);

// The samples of one rank in a step, pass after pass; of a mixture, their places in its data, of
// which SourceOf and FirstOf say the rest. Requires: use.is_known().
std::vector<int64_t> SamplesOf(const StepUse& use, int rank);

struct EpochUse {
  int source = 0;  // Of a mixture, whose sources have epochs of their own.
  int64_t epoch = 0;
  int64_t samples = 0;  // Of the data set or source; the next three add up to it.
  int64_t once = 0;
  int64_t again = 0;  // Used twice or more.
  int64_t never = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
};

struct LedgerUse {
  std::vector<EpochUse> epochs;  // By source and number; a source's last one may be under way.
  int64_t first_step = 0;        // The first and, if there are some, the last of all steps.
  int64_t last_step = -1;
  int64_t missing = 0;  // Records: of a rank and step; a step without any counts once.
  int64_t unknown = 0;  // Steps whose samples nobody knows.
};

LedgerUse UseOf(const std::vector<SampleRun>& counted);

// A use of one sample.
struct SampleUse {
  int64_t step = 0;
  int64_t epoch = 0;
  int rank = 0;
};

// All uses of a sample, by step; of a mixture, of a sample of this source. Takes time for each
// epoch in proportion to the data set.
std::vector<SampleUse> UsesOf(const std::vector<SampleRun>& counted, int64_t sample,
                              int source = 0);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SAMPLE_USE_H_
