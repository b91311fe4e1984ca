// What is still to be sent to one worker: queued messages, then the newest plan, then the number of
// the last report to arrive. A slow worker gets only the newest of the last two. Thread-compatible.
#ifndef CONTROLLER_API_SERVICES_SESSION_OUTBOX_H_
#define CONTROLLER_API_SERVICES_SESSION_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "proto/worker.pb.h"

namespace paceline {

class SessionOutbox {
 public:
  // Most messages in the queue: a session has at most 256 log requests, and each may add a
  // cancellation.
  static constexpr size_t kMaxQueued = 1024;

  // Returns false if the worker does not read; from then on nothing is queued.
  bool Queue(v1::ControllerMessage message);

  // Replaces a plan that was not sent yet; a new plan gets the next revision, from 1. Returns
  // false, and sends nothing, if it equals the last plan apart from its revision.
  bool SetPlan(v1::NodePlan plan);

  // All that was sent before this report has arrived. Only the newest number counts.
  void Answer(int64_t report) { answered_ = report; }

  // Takes out the next message; nothing: all was sent.
  std::optional<v1::ControllerMessage> Next();

 private:
  std::deque<v1::ControllerMessage> queue_;
  std::optional<v1::NodePlan> plan_;
  // SHA-256 of the last plan without its revision; empty: none yet. A shorter hash would not do:
  // submitters write parts of plans, and could make two that look alike.
  std::string last_plan_;
  int64_t revision_ = 0;
  std::optional<int64_t> answered_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_SESSION_OUTBOX_H_
