// Decides which samples a rank sees at a step.
//
// An epoch is an order of the samples: the file's order, or a permutation that depends on
// (seed, epoch) only. From the offset o in that order, rank r of W takes the positions o+r,
// o+r+W, o+r+2W, ..., B of them, so that the W batches together are the next W*B positions,
// however these are split; then o grows by W*B. When fewer than W*B samples are left, they are
// skipped and the next epoch begins: fewer than W*B of an epoch, also when W or B have changed
// in its middle. With `drop_last` false they make a smaller pass instead, divided in the same way:
// the first ranks may have one sample more than the others, and of fewer than W samples the last
// ranks have none.
//
// Of a mixture there is one order without end (mixture.h), which is divided among the ranks in the
// same way. Its epoch stays what it was at the start, and the offset is the position.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_CORE_SAMPLER_H_
#define WORKER_TRAINER_CORE_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/trainer/core/mixture.h"
#include "worker/trainer/core/permutation.h"

namespace paceline {

// How far all ranks together are in the data. The rest of an epoch depends on nothing else, so
// training can continue with a different number of ranks or batch size.
struct DataPosition {
  int64_t epoch = 0;
  int64_t offset = 0;  // Samples of the epoch's order already used.

  bool operator==(const DataPosition& other) const {
    return epoch == other.epoch && offset == other.offset;
  }
};

class Sampler {
 public:
  struct Options {
    int64_t samples = 0;  // N, size of the data set.
    int rank = 0;
    int world_size = 1;
    int64_t batch = 1;  // B, samples per rank and pass.
    bool shuffle = true;
    uint64_t seed = 0;
    bool drop_last = true;  // False: fewer than W*B samples make a pass, too.
    // Of N samples. Null: the data is no mixture. Shared, as samplers and runs of a ledger are
    // copied.
    std::shared_ptr<const Mixture> mixture = nullptr;
  };

  // What all ranks together take in a pass.
  struct Pass {
    DataPosition begin;
    int64_t samples = 0;  // At most batch * world_size; at least 1.
  };

  // Requires: options.samples >= batch * world_size; with drop_last false >= 1.
  explicit Sampler(const Options& options, DataPosition start = {})
      : options_(options), position_(start) {}

  // Sets `indices` to this rank's next batch, which may be empty, and advances.
  void Next(std::vector<int64_t>* indices);

  // Advances like Next.
  Pass Skip();

  // The position after the batches taken. The end of an epoch is not the start of the next one,
  // since smaller batches may still fit between them.
  DataPosition position() const { return position_; }

 private:
  void NextOfMixture(int64_t position, std::vector<int64_t>* indices) const;

  const Options options_;
  DataPosition position_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SAMPLER_H_
