// The byte layout of a step ring (see step_ring.h). For step_ring.cc and its test only.
#ifndef WORKER_RING_RING_LAYOUT_H_
#define WORKER_RING_RING_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace paceline::ring_layout {

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "shared between processes");

inline constexpr char kMagic[8] = {'P', 'C', 'L', 'R', 'I', 'N', 'G', '1'};
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kLiveCells = 2;

// Number of phases in a record; step_ring.h checks its own against it.
inline constexpr int kPhaseWords = 8;

// Written once by CreateStepRing, except for `written` and `collectives`.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t slot_bytes;
  uint32_t capacity;
  uint32_t reserved;
  uint64_t file_bytes;
  char padding[32];
  Word written;      // Records ever written; stored with release after each.
  Word collectives;  // As StepRingReader::Collectives. Several threads add to it.
  char padding2[48];
};
static_assert(sizeof(Header) == 128 && offsetof(Header, written) == 64 &&
              offsetof(Header, collectives) == 72);

// Change k (from 1) goes to cell k % 2: its sequence is 2k - 1 during the change, 2k after.
struct LiveCell {
  Word sequence;
  Word step_and_phase;  // step << 8 | phase.
  Word since_ns;
  Word done_and_all;  // Batches of an evaluation: done << 32 | all; else 0.
  char padding[32];
};
static_assert(sizeof(LiveCell) == 64);

// Record n (from 0) has sequence 2n + 1 while it is being written, 2n + 2 after. "_bits" are bit
// patterns of IEEE numbers.
struct Slot {
  Word sequence;
  Word step;
  Word start_ns;
  Word total_ns;
  Word phase_ns[kPhaseWords];
  Word samples;
  Word tokens;
  Word wire_bytes;
  Word averaging_group_size;
  Word workload_bits;
  Word loss_and_grad_norm_bits;        // The loss in the lower half.
  Word learning_rate_bits_and_masked;  // The learning rate in the lower half, then one bit.
  char padding[40];
};
static_assert(sizeof(Slot) == 192);

struct Ring {
  Header header;
  LiveCell live[kLiveCells];
  Slot slots[1];  // `capacity` of them.
};
static_assert(offsetof(Ring, live) == 128 && offsetof(Ring, slots) == 256);

inline constexpr size_t FileBytes(uint32_t capacity) {
  return offsetof(Ring, slots) + size_t{capacity} * sizeof(Slot);
}

}  // namespace paceline::ring_layout

#endif  // WORKER_RING_RING_LAYOUT_H_
