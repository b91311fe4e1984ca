// Holds steps that were not sent yet when their trainers were forgotten.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINERS_LEFT_STEPS_H_
#define WORKER_DAEMON_TRAINERS_LEFT_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "proto/worker.pb.h"

namespace paceline {

class LeftSteps {
 public:
  static constexpr size_t kMaxBatches = 256;  // All batches of 64 trainers (ring_tail.h).

  // Adds a batch. Returns how many of the oldest records were dropped to make room.
  int64_t Add(v1::StepBatch batch) {
    batches_.push_back(std::move(batch));
    if (batches_.size() <= kMaxBatches) return 0;
    const int64_t dropped = batches_.front().records_size();
    batches_.pop_front();
    return dropped;
  }

  // Removes the oldest batch; nothing when there are none.
  std::optional<v1::StepBatch> Take() {
    if (batches_.empty()) return std::nullopt;
    v1::StepBatch batch = std::move(batches_.front());
    batches_.pop_front();
    return batch;
  }

 private:
  std::deque<v1::StepBatch> batches_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_LEFT_STEPS_H_
