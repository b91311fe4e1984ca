// The passes over a rank's buffers: loops over floats that the compiler vectorises.
//
// A pass over a whole buffer may be cut into chunks, done in any order or at the same time; the
// buffers are the same to the bit. T: float; double in tests.
//
//   x     the model that the rank trains
//   z     the canonical model
//   ref   the z that x is built on, moved on by what has been sent since
//   sent  what ref becomes when the round that is in flight has finished
//   pub   x at the latest step boundary
//   wire  what a collective sums up
//   rest  what a lossy one leaves out of it
//
// Thread-safe: buffers are the caller's.
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

// The same while a round is in flight.
template <typename T>
void RebaseInFlight(size_t count, const T* z, T* x, T* ref, T* sent, T* pub) {
  for (size_t i = 0; i < count; ++i) {
    x[i] = z[i] + (x[i] - ref[i]);
    sent[i] = z[i] + (sent[i] - ref[i]);
    ref[i] = z[i];
    pub[i] = x[i];
  }
}

// The update, and its square: a sum in double, not finite if one of its values is not.
template <typename T>
double FillUpdate(size_t count, const T* sent, const T* ref, T* wire) {
  double squared = 0;
  for (size_t i = 0; i < count; ++i) {
    wire[i] = sent[i] - ref[i];
    squared += static_cast<double>(wire[i]) * static_cast<double>(wire[i]);
  }
  return squared;
}

// z + wire / ranks. The sum of the updates is the same to the bit on all ranks, and so is z.
template <typename T>
void ApplyUpdates(size_t count, const T* wire, int ranks, T* z) {
  for (size_t i = 0; i < count; ++i) z[i] += wire[i] / static_cast<T>(ranks);
}

// What a lossy sum does not have of the update: `of` is sent, or ref if none is in flight.
template <typename T>
void TakeOut(size_t count, const T* rest, T* of) {
  for (size_t i = 0; i < count; ++i) of[i] -= rest[i];
}

// The mean of `ranks` gradients from their sum, and its square like that of an update.
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
