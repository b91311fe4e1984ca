// Small artificial image sets that a model can learn.
#ifndef WORKER_TRAINER_TESTING_PATTERNS_H_
#define WORKER_TRAINER_TESTING_PATTERNS_H_

#include <cstdint>
#include <string>

namespace paceline {

// Writes a shard of `count` grey 8x8 images of 10 classes: a pattern for each class, and
// noise that depends on `seed`.
void WritePatterns(const std::string& path, int count, uint64_t seed);

// The same for ranks that take their samples in the file's order and see labels of their own only:
// the label of the n-th sample and n are the same modulo `ranks`.
void WriteSortedPatterns(const std::string& path, int count, uint64_t seed, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_PATTERNS_H_
