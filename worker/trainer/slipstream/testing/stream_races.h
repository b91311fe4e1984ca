// For tests: streams of an imaginary device, and a check that their work is ordered.
//
// The tensors are on the CPU, so torch's operators run at once. But each counts as enqueued on its
// thread's stream, where it could run at any later time unless an event forbids that. Two operators
// on different streams, of which at least one writes what the other uses, race if no chain of
// events leads from the first to the second. (Messages between threads do not count: a device does
// not hear them.) Torch's hook for profilers shows operators with their inputs and outputs.
//
// Thread-safe. One object per rank; each tensor belongs to one rank.
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
  // While it lives, the calling thread's operators count, on the training's stream.
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

  // The first races: "operator writes n bytes in stream 1 that the other one uses".
  std::vector<std::string> races() const;
  // Number of uses, in order, of memory that the other stream had used before.
  int64_t in_order() const;

  // Called by the hook.
  void Use(const c10::Storage& memory, bool writes, const std::string& by);

 private:
  static constexpr int kStreams = 2;
  // How much of each stream comes before.
  using Clock = std::array<int64_t, kStreams>;
  struct Memory {
    c10::Storage kept;  // Keeps its address from being reused.
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
