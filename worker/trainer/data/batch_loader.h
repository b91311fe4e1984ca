// The batches of one rank, in the order of its sampler, fetched ahead by threads.
//
// Threads fill a bounded ring of host tensors, each batch wholly by one thread, and hand the
// batches out in order; nothing is allocated per batch. For a GPU the tensors are pinned, and
// the threads copy them on a stream of their own; Next makes the current stream wait for the
// copy, not the caller.
//
// Where the loader is in the data is a few numbers, a function of the batches handed out and
// not of those fetched ahead; from them it goes on exactly, in the middle of an epoch and
// with another number of ranks too.
#ifndef WORKER_TRAINER_DATA_BATCH_LOADER_H_
#define WORKER_TRAINER_DATA_BATCH_LOADER_H_

#include <c10/core/Device.h>

#include <memory>

#include "absl/status/statusor.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/dataset.h"

namespace paceline {

// Thread-compatible. Torch's exceptions, also those of the threads, pass through Next.
class BatchLoader {
 public:
  struct Options {
    Sampler::Options sampler;  // samples: dataset.size().
    DataPosition start;        // Where to begin.
    int threads = 1;           // 0: Next reads by itself.
    int batches_ahead = 2;     // At least 1 is fetched ahead by threads.
    c10::Device device = c10::kCPU;
  };

  // `dataset` outlives this. Starts the threads.
  BatchLoader(const Dataset& dataset, const Options& options);
  ~BatchLoader();

  // The next batch, on the device; its tensors are the loader's and hold it until the next call,
  // which for a GPU means: for all that was enqueued on the current stream before that call.
  // DataLoss as Dataset::Read, for this batch and every further call.
  absl::StatusOr<Batch> Next();

  // Where a loader that has handed out the same batches begins with the next one.
  DataPosition position() const;

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_BATCH_LOADER_H_
