// Orders a rank's passes on a device, where a call only enqueues them.
//
// Each of the two threads works in its own stream. SlipstreamRank lets a thread begin a pass when
// conflicting earlier ones are reported done. On a device they may only be enqueued on the other
// stream. So for each part of the memory (slipstream/pass_use.h), an event is recorded after a pass
// that reads it, and one after a pass that writes it. A pass waits for the other stream's events of
// the parts it uses: a read for the write, a write for both. Events belong to buffers in memory,
// whatever their current names. A thread only waits where it needs a result from the device.
//
//   compute   step │copy│step│copy│ ...           its step is a pass over model, gradients and
//                     │    ▲                      optimizer: TakeBack ... HandOver
//                     ▼    │
//   comm             fill ── sum ── apply
//
// On a CPU nothing is needed: passes are done when they are reported.
//
// Thread-safe; each side is used by one thread. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_SLIPSTREAM_PASS_ORDER_H_
#define WORKER_TRAINER_SLIPSTREAM_PASS_ORDER_H_

#include <cstdint>
#include <memory>

#include "slipstream/pass_use.h"
#include "worker/trainer/comm/device_streams.h"

namespace paceline {

class PassOrder {
 public:
  enum class Side { kCompute, kComm };

  // Call this on the compute thread. Work already on its stream comes before everything else. Null:
  // the device is a CPU and nothing needs to be done. `streams` must outlive this.
  explicit PassOrder(DeviceStreams* streams);

  bool on_device() const { return streams_ != nullptr; }

  // Called first by the communication thread: switches it to its own stream while the result lives.
  // Null on a CPU.
  std::unique_ptr<DeviceStreams::Aside> GoAside();

  // Enqueues the pass on the calling thread's stream, in the right order.
  template <typename F>
  void Run(Side side, const PassUse& use, F pass) {
    if (on_device()) StartAfterConflicts(side, use);
    pass();
    if (on_device()) Record(side, use);
  }

  // Called by the compute thread: TakeBack before it enqueues a step or other work on the model;
  // HandOver afterwards, before it reports that work.
  void TakeBack();
  void HandOver();

  // Called by the compute thread before a step: sleeps until the device has begun the latest step,
  // so that at most one is queued. (More would be reported long before they are done, and delay the
  // update that a round waits for.)
  void WaitForLatestStep();

  // Sleeps until the calling thread's stream has done its work so far.
  void WaitForStream(Side side);

 private:
  void StartAfterConflicts(Side side, const PassUse& use);
  void Record(Side side, const PassUse& use);

  DeviceStreams* const streams_;
  int64_t steps_ = 0;  // Handed over; used by the compute thread.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_PASS_ORDER_H_
