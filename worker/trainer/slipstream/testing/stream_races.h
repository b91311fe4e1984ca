// For tests: streams of a device that there is not, and whether what they do is in order.
//
// The tensors are a CPU's, so that each of torch's operators is done at once. But it counts as
// given to the stream that its thread is in, where it could be done at any later time, unless an
// event forbids that: two operators in different streams, of which at least one writes what the
// other one uses, are a race if no chain of events leads from the first to the second. (What
// threads say to each other does not count: a device does not hear it.) Operators are seen with
// their inputs and outputs by torch's own hook for profilers.
//
// Thread-safe. One for each rank; tensors belong to one rank.
#ifndef WORKER_TRAINER_SLIPSTREAM_TESTING_STREAM_RACES_H_
#define WORKER_TRAINER_SLIPSTREAM_TESTING_STREAM_RACES_H_

#include <c10/core/Storage.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/device_streams.h"

namespace paceline {

class StreamRaces : public DeviceStreams {
 public:
  // While it lives the calling thread's operators count, as in the training's stream.
  class Entered {
   public:
    explicit Entered(StreamRaces& races);
    ~Entered();
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
  };

  std::unique_ptr<Aside> GoAside() override;
  void Record(Event event) override;
  void StartAfter(Event event) override;
  void Wait(Event event) override;

  // "operator writes n bytes in stream 1 that the other one uses": the first ones.
  std::vector<std::string> races() const;
  // Uses of memory that the other stream had used before, in order.
  int64_t in_order() const;

  // The hook's.
  void Use(const c10::Storage& memory, bool writes, const std::string& by);

 private:
  static constexpr int kStreams = 2;
  // So much of each stream comes before.
  using Clock = std::array<int64_t, kStreams>;
  struct Memory {
    c10::Storage kept;  // So that no other memory gets its address.
    Clock read{};
    Clock written{};
  };

  mutable absl::Mutex mu_;
  std::array<Clock, kStreams> now_ ABSL_GUARDED_BY(mu_){};
  std::array<Clock, kEvents> events_ ABSL_GUARDED_BY(mu_){};
  std::map<const void*, Memory> memory_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> races_ ABSL_GUARDED_BY(mu_);
  int64_t in_order_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_TESTING_STREAM_RACES_H_
