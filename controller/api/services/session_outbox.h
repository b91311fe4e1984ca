// What is still to be told to one worker: what is queued, then the newest plan, then which report
// was the last to arrive. A worker that reads slowly gets the newest of both. Thread-compatible.
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
  // Of messages that are queued: a session has 256 log requests at most, and those that are
  // cancelled are told twice.
  static constexpr size_t kMaxQueued = 1024;

  // False: the worker does not read. Nothing is queued then, also not what was.
  bool Queue(v1::ControllerMessage message);

  // Takes the place of a plan that has not been told, and gets the next revision, from 1. False: it
  // is the same as the last one (whose revision does not count), and is not told again.
  bool SetPlan(v1::NodePlan plan);

  // What was sent before this report has arrived. Only the newest counts.
  void Answer(int64_t report) { answered_ = report; }

  // What to tell next, taken out; nothing: all is told.
  std::optional<v1::ControllerMessage> Next();

 private:
  std::deque<v1::ControllerMessage> queue_;
  std::optional<v1::NodePlan> plan_;
  // SHA-256 of the last plan, without its revision; empty: none yet. No hash of fewer bits:
  // submitters write parts of plans, and could make two that look alike.
  std::string last_plan_;
  int64_t revision_ = 0;
  std::optional<int64_t> answered_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_SESSION_OUTBOX_H_
