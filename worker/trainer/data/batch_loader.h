// The batches of one rank, in the order of its sampler, fetched ahead by threads.
//
// Threads fill a bounded ring of host tensors, each batch wholly by one thread, and hand the
// batches out in order; nothing is allocated per batch. For a GPU the tensors are pinned and
// copied without blocking; a tensor is filled again only after its copy.
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

// Thread-compatible.
class BatchLoader {
 public:
  struct Options {
    Sampler::Options sampler;  // samples: dataset.size().
    DataPosition start;        // Where to begin.
    int threads = 1;           // 0: Next reads by itself.
    int batches_ahead = 2;
    c10::Device device = c10::kCPU;
  };

  // `dataset` outlives this. Starts the threads.
  BatchLoader(const Dataset& dataset, const Options& options);
  ~BatchLoader();

  // The next batch, on the device; valid until the next call. DataLoss as Dataset::Read.
  absl::StatusOr<Batch> Next();

  // Where a loader that has handed out the same batches begins with the next one.
  DataPosition position() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_BATCH_LOADER_H_
