// A permutation of 0 .. size-1 that is computed element by element: a Feistel network on the
// smallest even number of bits that holds `size`, walked along its cycle until it falls below
// `size`. It takes neither memory nor time to begin an epoch or to start in the middle of one.
//
// Thread-safe: it never changes.
#ifndef WORKER_TRAINER_CORE_PERMUTATION_H_
#define WORKER_TRAINER_CORE_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace paceline {

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

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_PERMUTATION_H_
