// Decides which samples a rank sees at a step.
//
// An epoch is an order of the samples: the file's order, or a permutation that depends on
// (seed, epoch) only. From the offset o in that order, rank r of W takes the positions o+r,
// o+r+W, o+r+2W, ..., B of them, so that the W batches together are the next W*B positions,
// however these are split; then o grows by W*B. When fewer than W*B samples are left, they are
// skipped and the next epoch begins: fewer than W*B of an epoch, also when W or B have changed
// in its middle.
//
// The permutation is computed element by element (a Feistel network on the smallest even
// number of bits that holds N, walked along its cycle until it falls below N), so it takes
// neither memory nor time to begin an epoch or to start in the middle of one.
//
// A Permutation is thread-safe, as it never changes; a Sampler is thread-compatible.
#ifndef WORKER_TRAINER_CORE_SAMPLER_H_
#define WORKER_TRAINER_CORE_SAMPLER_H_

#include <array>
#include <cstdint>
#include <vector>

namespace paceline {

// A permutation of 0 .. size-1.
class Permutation {
 public:
  // Requires: size >= 1.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);

  // Requires: 0 <= position < size. Expected cost: at most four rounds through the network.
  int64_t At(int64_t position) const;

 private:
  static constexpr int kRounds = 6;

  uint64_t Shuffle(uint64_t value) const;

  uint64_t size_;
  uint32_t half_bits_;
  uint64_t half_mask_;
  std::array<uint64_t, kRounds> keys_;
};

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
  };

  // Requires: options.samples >= batch * world_size.
  explicit Sampler(const Options& options, DataPosition start = {})
      : options_(options), position_(start) {}

  // Sets `indices` to this rank's next batch and advances.
  void Next(std::vector<int64_t>* indices);

  // Advances like Next.
  void Skip();

  // The position after the batches taken. The end of an epoch is not the start of the next one,
  // since smaller batches may still fit between them.
  DataPosition position() const { return position_; }

 private:
  // Advances; returns the position at which the ranks' batches began.
  DataPosition Take();

  const Options options_;
  DataPosition position_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SAMPLER_H_
