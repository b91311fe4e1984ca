// The streams of a device that two threads work in, and events that put in order what they do
// there.
#ifndef WORKER_TRAINER_COMM_DEVICE_STREAMS_H_
#define WORKER_TRAINER_COMM_DEVICE_STREAMS_H_

#include <memory>

namespace paceline {

// Thread-safe, but each event is recorded, and waited for, by one thread. Torch's exceptions pass
// through.
class DeviceStreams {
 public:
  // Number of an event, from 0.
  using Event = int;
  static constexpr int kEvents = 64;

  virtual ~DeviceStreams() = default;

  // Where the calling thread's work goes while it lives: a stream of its own, of high priority.
  class Aside {
   public:
    virtual ~Aside() = default;
  };
  virtual std::unique_ptr<Aside> GoAside() = 0;

  // From now on the event has passed when the calling thread's stream has done all that it has been
  // given so far.
  virtual void Record(Event event) = 0;

  // What the calling thread's stream is given from now on begins after the event as it is recorded
  // now; nothing if it never was. Blocks no thread.
  virtual void StartAfter(Event event) = 0;

  // Sleeps until the event has passed.
  virtual void Wait(Event event) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_DEVICE_STREAMS_H_
