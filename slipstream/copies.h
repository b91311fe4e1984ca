// The passes over a rank's buffers: loops over floats that the compiler can vectorise.
//
// A pass over a whole buffer may be cut into chunks that run in any order or in parallel; the
// result is the same to the bit. T: float; double in tests.
//
//   x     the model that the rank trains
//   z     the canonical model
//   ref   the z that x is built on, moved on by what has been sent since
//   sent  what ref becomes when the round in flight has finished
//   pub   x at the latest step boundary
//   wire  what a collective sums
//   rest  what a lossy collective leaves out
//
// Thread-safe: the buffers belong to the caller.
#ifndef SLIPSTREAM_COPIES_H_
#define SLIPSTREAM_COPIES_H_

#include <cstddef>

namespace paceline {

// Puts the rank's own work, x - ref, on top of the present z. Where x = ref, x becomes exactly z.
template <typename T>
void Rebase(size_t count, const T* z, T* x, T* ref, T* pub) {
  for (size_t i = 0; i < count; ++i) {
    x[i] = z[i] + (x[i] - ref[i]);
    ref[i] = z[i];
    pub[i] = x[i];
  }
}

// The same, while a round is in flight.
template <typename T>
void RebaseInFlight(size_t count, const T* z, T* x, T* ref, T* sent, T* pub) {
  for (size_t i = 0; i < count; ++i) {
    x[i] = z[i] + (x[i] - ref[i]);
    sent[i] = z[i] + (sent[i] - ref[i]);
    ref[i] = z[i];
    pub[i] = x[i];
  }
}

// Fills in the update. Returns its square, summed in double; not finite if any value is not.
template <typename T>
double FillUpdate(size_t count, const T* sent, const T* ref, T* wire) {
  double squared = 0;
  for (size_t i = 0; i < count; ++i) {
    wire[i] = sent[i] - ref[i];
    squared += static_cast<double>(wire[i]) * static_cast<double>(wire[i]);
  }
  return squared;
}

// Adds wire / ranks to z. The sum is the same to the bit on all ranks, and so is z.
template <typename T>
void ApplyUpdates(size_t count, const T* wire, int ranks, T* z) {
  for (size_t i = 0; i < count; ++i) z[i] += wire[i] / static_cast<T>(ranks);
}

// Takes what a lossy sum left out of the update off `of`: sent, or ref if no update is in flight.
template <typename T>
void TakeOut(size_t count, const T* rest, T* of) {
  for (size_t i = 0; i < count; ++i) of[i] -= rest[i];
}

// Turns the sum of `ranks` gradients into their mean. Returns its square, as FillUpdate does.
template <typename T>
double TakeMean(size_t count, int ranks, T* wire) {
  double squared = 0;
  for (size_t i = 0; i < count; ++i) {
    wire[i] /= static_cast<T>(ranks);
    squared += static_cast<double>(wire[i]) * static_cast<double>(wire[i]);
  }
  return squared;
}

template <typename T>
void Scale(size_t count, T factor, T* wire) {
  for (size_t i = 0; i < count; ++i) wire[i] *= factor;
}

}  // namespace paceline

#endif  // SLIPSTREAM_COPIES_H_
