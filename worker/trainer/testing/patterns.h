// Small artificial image sets that a model can learn.
#ifndef WORKER_TRAINER_TESTING_PATTERNS_H_
#define WORKER_TRAINER_TESTING_PATTERNS_H_

#include <cstdint>
#include <string>

namespace paceline {

// Writes a shard of `count` grey 8x8 images in 10 classes: one pattern per class, plus noise that
// depends on `seed`.
void WritePatterns(const std::string& path, int count, uint64_t seed);

// The same for ranks that take samples in file order and each see labels of their own only: the
// label of sample n equals n modulo `ranks`.
void WriteSortedPatterns(const std::string& path, int count, uint64_t seed, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_PATTERNS_H_
