// Softmax, cross-entropy and its gradient of rows of logits as one loop, in place, for the CPU.
//
// Values are floats, or bfloat16 given by their bits (uint16_t), which are computed in float and
// rounded once. A row with NaN or +infinity gives NaN, as at::log_softmax does. Single-threaded;
// callers split rows.
#ifndef WORKER_TRAINER_MODEL_CROSS_ENTROPY_ROWS_H_
#define WORKER_TRAINER_MODEL_CROSS_ENTROPY_ROWS_H_

#include <cstdint>

namespace paceline {

// The log-probability of each row's class: `logits` are [rows, classes], `own` [rows], each within
// [0, classes), log_probabilities [rows]. Unless `shares` [rows] is null, the logits are replaced
// by the gradient of -sum(shares * log_probabilities).
void CrossEntropyRows(float* logits, int64_t rows, int64_t classes, const int64_t* own,
                      const float* shares, float* log_probabilities);
void CrossEntropyRows(uint16_t* logits, int64_t rows, int64_t classes, const int64_t* own,
                      const float* shares, float* log_probabilities);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CROSS_ENTROPY_ROWS_H_
