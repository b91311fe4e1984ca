// Streams of a device for two threads, and events that order their work.
#ifndef WORKER_TRAINER_COMM_DEVICE_STREAMS_H_
#define WORKER_TRAINER_COMM_DEVICE_STREAMS_H_

#include <memory>

namespace paceline {

// Thread-safe, but each event is recorded by one thread and waited for by one thread. Torch's
// exceptions pass through.
class DeviceStreams {
 public:
  // Number of an event, counting from 0.
  using Event = int;
  static constexpr int kEvents = 64;

  virtual ~DeviceStreams() = default;

  // While it lives, the calling thread's work goes to a separate stream of high priority.
  class Aside {
   public:
    virtual ~Aside() = default;
  };
  virtual std::unique_ptr<Aside> GoAside() = 0;

  // Records the event: it passes when the calling thread's stream has done all work enqueued so
  // far.
  virtual void Record(Event event) = 0;

  // Makes later work of the calling thread's stream wait for the event as last recorded; no effect
  // if it was never recorded. Blocks no thread.
  virtual void StartAfter(Event event) = 0;

  // Sleeps until the event has passed.
  virtual void Wait(Event event) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_DEVICE_STREAMS_H_
