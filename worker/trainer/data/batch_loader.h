// Loads the batches of one rank, in its sampler's order, ahead of time on threads.
//
// Threads fill a bounded ring of host tensors, one thread per batch, and batches are handed out in
// order; nothing is allocated per batch. For a GPU the tensors are pinned and the threads copy them
// on a separate stream; Next makes the current stream, not the caller, wait for the copy.
//
// The loader's position is a few numbers that depend only on the batches handed out, not on those
// fetched ahead. From it, loading continues exactly, also in the middle of an epoch and with a
// different number of ranks.
#ifndef WORKER_TRAINER_DATA_BATCH_LOADER_H_
#define WORKER_TRAINER_DATA_BATCH_LOADER_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/object_store/read_interrupt.h"

namespace paceline {

// Thread-compatible. Next passes on torch's exceptions, including those of the threads.
class BatchLoader {
 public:
  // May throw what std::thread's constructor does.
  using StartThread = std::function<std::thread(std::function<void()> run)>;

  struct Options {
    Sampler::Options sampler;  // `samples` must be dataset.size().
    DataPosition start;        // Where to begin.
    int threads = 1;           // 0: Next reads itself.
    int batches_ahead = 2;     // At least 1; fetched by threads.
    c10::Device device = c10::kCPU;
    // Of reads of the dataset: set while this ends, so that no store is waited for. Reads of others
    // are cut off then, too: two loaders must not have the same one. Null: there is none.
    ReadInterrupt* interrupt = nullptr;
    StartThread start_thread = StartOwnThread;
  };

  // Starts the threads. `dataset` and the interrupt must outlive this.
  BatchLoader(const Dataset& dataset, const Options& options);
  ~BatchLoader();

  // Returns the next batch, on the device; with sampler.drop_last false it may have no samples. Its
  // tensors belong to the loader and are valid until the next call; on a GPU, for all work enqueued
  // on the current stream before that call. Errors as for Dataset::Read, also in all later calls.
  // Internal: some threads could not be started.
  absl::StatusOr<Batch> Next();

  // The position from which another loader would continue with the next batch.
  DataPosition position() const;

  // Samples that all ranks take in the pass of the last batch; 0: there was none.
  int64_t together() const;

 private:
  class Ring;
  static std::thread StartOwnThread(std::function<void()> run);

  std::unique_ptr<Ring> ring_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_BATCH_LOADER_H_
