// Decides what becomes of streamed averages (stream_schedule.h) when a generation's members meet,
// in the groups of before.
//
// An average needs what each rank has given to it, so it has a result only when all ranks have come
// to its step. Whoever has taken one up, therefore, is ahead of nobody by more than that one:
//
//   some have taken it up    the others get what it has changed of point and momentum, and take it
//                            up when they come to its step
//   nobody has               all send again what they gave to it; newcomers, what their source did
//   some have dropped it     all drop it: they had made all ranks equal since
//
// Pure.
#ifndef WORKER_TRAINER_CORE_STREAM_RENDEZVOUS_H_
#define WORKER_TRAINER_CORE_STREAM_RENDEZVOUS_H_

#include <cstdint>
#include <vector>

namespace paceline {

// How far a rank is with the averages of a streamed level. They go by the step after which they
// begin.
struct StreamPosition {
  int64_t latest = -1;  // The newest one that this rank has begun; none before it is missing.
  int64_t begun = -1;   // That one, as long as it is not taken up or dropped; -1: none.
  int64_t taken = -1;   // The newest one that point and momentum have; -1: none.

  // Whether the result of the one begun is not known.
  bool is_waiting() const { return begun > taken; }
  bool operator==(const StreamPosition& other) const {
    return latest == other.latest && begun == other.begun && taken == other.taken;
  }
};

struct StreamAgreement {
  struct Gift {
    int from = 0;
    int to = 0;
  };
  int64_t newest = -1;                    // The one that is given.
  std::vector<Gift> gifts;                // Make them in this order.
  std::vector<StreamPosition> positions;  // By rank, afterwards.
};

// `reported`: by rank, with what they have from the other transfers of the rendezvous.
StreamAgreement AgreeOnAverages(const std::vector<StreamPosition>& reported);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_STREAM_RENDEZVOUS_H_
