#include "worker/trainer/model/cross_entropy_rows.h"

#include <cmath>
#include <limits>

#include "worker/trainer/model/bfloat16_bits.h"
#include "worker/trainer/model/cpu_exp.h"
#include "worker/trainer/model/cpu_versions.h"

namespace paceline {
namespace {

// Number of partial results, so that a row's elements can be taken in parallel.
constexpr int64_t kLanes = 32;

// NaN is passed over.
template <typename T>
inline __attribute__((always_inline)) float LargestOf(const T* row, int64_t size) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  const int64_t whole = size - size % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const float x = LoadFloat(row[i + k]);
      lanes[k] = x > lanes[k] ? x : lanes[k];
    }
  }
  for (int64_t i = whole; i < size; ++i) {
    const float x = LoadFloat(row[i]);
    lanes[0] = x > lanes[0] ? x : lanes[0];
  }
  float largest = lanes[0];
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

template <typename T>
inline __attribute__((always_inline)) float SumOfExp(const T* row, int64_t size, float largest) {
  float lanes[kLanes] = {};
  const int64_t whole = size - size % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += Exp(LoadFloat(row[i + k]) - largest);
  }
  for (int64_t i = whole; i < size; ++i) lanes[0] += Exp(LoadFloat(row[i]) - largest);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename T>
inline __attribute__((always_inline)) void LossOfRows(T* logits, int64_t rows, int64_t classes,
                                                      const int64_t* own, const float* shares,
                                                      float* log_probabilities) {
  for (int64_t row = 0; row < rows; ++row, logits += classes) {
    const float largest = LargestOf(logits, classes);
    const float sum = SumOfExp(logits, classes, largest);
    const float log_probability = LoadFloat(logits[own[row]]) - largest - std::log(sum);
    log_probabilities[row] = log_probability;
    if (shares == nullptr) continue;
    const float share = shares[row];
    const float factor = share / sum;
    for (int64_t i = 0; i < classes; ++i) {
      StoreFloat(Exp(LoadFloat(logits[i]) - largest) * factor, logits + i);
    }
    StoreFloat(std::expm1(log_probability) * share, logits + own[row]);
  }
}

}  // namespace

PACELINE_CPU_VERSIONS
void CrossEntropyRows(float* logits, int64_t rows, int64_t classes, const int64_t* own,
                      const float* shares, float* log_probabilities) {
  LossOfRows(logits, rows, classes, own, shares, log_probabilities);
}

PACELINE_CPU_VERSIONS
void CrossEntropyRows(uint16_t* logits, int64_t rows, int64_t classes, const int64_t* own,
                      const float* shares, float* log_probabilities) {
  LossOfRows(logits, rows, classes, own, shares, log_probabilities);
}

}  // namespace paceline
