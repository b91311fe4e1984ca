// Puts a rank's passes in order on a device, where they only begin when they are ordered.
//
// Each of the two threads works in a stream of the device. SlipstreamRank lets a thread begin a
// pass when those before it that conflict have been told to be done. On a device they may only have
// been given to the other stream, so for each part of the memory (slipstream/pass_use.h) an
// event is recorded behind a pass that reads it, and one behind a pass that writes it; a pass
// starts after the other stream's events of what it uses: to read, after the write; to write, after
// both. Events are those of the buffers as they lie in memory, whatever their names are then. No
// thread waits but where it has to know what the device has found.
//
//   compute   step │copy│step│copy│ ...           its step is a pass over model, gradients and
//                     │    ▲                      optimizer: TakeBack ... HandOver
//                     ▼    │
//   comm             fill ── sum ── apply
//
// A CPU needs none of it: there passes are done when they are told to be.
//
// Thread-safe; each side is of one thread. Torch's exceptions pass through.
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

  // Made by the compute thread. What its stream has been given comes before all that follows. Null:
  // the device is a CPU, and nothing has to be done here. `streams` outlives this.
  explicit PassOrder(DeviceStreams* streams);

  bool on_device() const { return streams_ != nullptr; }

  // The communication thread, before all else: to its own stream, while the result lives. Null on a
  // CPU.
  std::unique_ptr<DeviceStreams::Aside> GoAside();

  // Gives the pass to the calling thread's stream, in its order.
  template <typename F>
  void Run(Side side, const PassUse& use, F pass) {
    if (on_device()) StartAfterConflicts(side, use);
    pass();
    if (on_device()) Record(side, use);
  }

  // The compute thread: before it gives its stream a step, and what else it does with the model by
  // itself; and after that, before it tells of it.
  void TakeBack();
  void HandOver();

  // The compute thread, before a step: sleeps until the device has begun the latest step, so that
  // one step is queued at most. (More of them would be told of long before they are done, and the
  // update that a round waits for would be behind them.)
  void WaitForLatestStep();

  // Sleeps until the calling thread's stream has done what it has been given so far.
  void WaitForStream(Side side);

 private:
  void StartAfterConflicts(Side side, const PassUse& use);
  void Record(Side side, const PassUse& use);

  DeviceStreams* const streams_;
  int64_t steps_ = 0;  // Handed over. The compute thread's.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_PASS_ORDER_H_
