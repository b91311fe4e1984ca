// What a rank's passes read and write. On a device a pass only begins when it is ordered; there
// passes that share something are put in order by this (worker/trainer/slipstream/pass_order.h).
//
// Thread-safe: pure functions.
#ifndef SLIPSTREAM_PASS_USE_H_
#define SLIPSTREAM_PASS_USE_H_

#include "slipstream/rank.h"

namespace paceline {

// Sets of parts, as bits. Parts that only the communication thread uses are left out: the wire
// buffer, and the tensors in which the optimizer's state travels.
struct PassUse {
  enum Part : unsigned {
    kModel = 1U << 0,  // x, which the compute thread trains.
    kGradients = 1U << 1,
    kOptimizer = 1U << 2,  // The optimizer's state.
    kZ = 1U << 3,
    kBuffer = 1U << 4,  // The first of three; that with number n is kBuffer << n.
  };
  static constexpr int kParts = 7;
  static constexpr unsigned kAll = (1U << kParts) - 1;

  unsigned reads = 0;
  unsigned writes = 0;
};

// What the compute thread uses in a step, at a stop, and after the end.
inline constexpr PassUse kStepUse = {0,
                                     PassUse::kModel | PassUse::kGradients | PassUse::kOptimizer};

PassUse UseOf(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);
PassUse UseOf(CommOrder::Fill fill, const SlipstreamRank::Buffers& names);
// For kApply.
PassUse UseOf(const CommOrder::Payload& payload, bool local);

}  // namespace paceline

#endif  // SLIPSTREAM_PASS_USE_H_
