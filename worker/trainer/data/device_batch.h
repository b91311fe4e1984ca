// A batch on a GPU, filled from the host by copies on a stream of their own.
//
// Who works on the current stream of the device neither waits for the copies nor overtakes
// them: the streams wait for one another by events. Written against c10's device-neutral
// interfaces, so that a program without CUDA links it too.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_DATA_DEVICE_BATCH_H_
#define WORKER_TRAINER_DATA_DEVICE_BATCH_H_

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "worker/trainer/data/dataset.h"

namespace paceline {

// A stream for copies to this device.
c10::Stream NewCopyStream(c10::Device device);

class DeviceBatch {
 public:
  // Has tensors like those of `host`, allocated on the current stream.
  DeviceBatch(const Batch& host, c10::Stream copies);

  // Enqueues the copy of `host`, which is pinned and of the size given at first, behind the
  // uses until the last EndUse.
  void Copy(const Batch& host);

  // Whether the memory of the batch last copied may be overwritten.
  bool IsCopied() const { return copied_.query(); }

  // The batch last copied, for work on the current stream.
  const Batch& Use();

  // What is on the current stream until now was the last use.
  void EndUse();

 private:
  c10::Stream CurrentStream() const;

  const c10::Stream copies_;
  Batch batch_;
  c10::Event copied_;
  c10::Event used_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_DEVICE_BATCH_H_
