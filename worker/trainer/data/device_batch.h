// A batch on a GPU, filled from the host by copies on a separate stream.
//
// Work on the device's current stream neither blocks the caller until the copies are done nor
// overtakes them: events order the streams. Uses c10's device-neutral interfaces, so that programs
// without CUDA can link it.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_DATA_DEVICE_BATCH_H_
#define WORKER_TRAINER_DATA_DEVICE_BATCH_H_

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "worker/trainer/data/dataset.h"

namespace paceline {

// Makes a stream for copies to this device.
c10::Stream NewCopyStream(c10::Device device);

class DeviceBatch {
 public:
  // Allocates tensors like those of `host` on the current stream.
  DeviceBatch(const Batch& host, c10::Stream copies);

  // Enqueues the copy of `host`, which must be pinned and have no more rows than at construction,
  // behind all uses up to the last EndUse.
  void Copy(const Batch& host);

  // Whether the host memory copied last may be overwritten.
  bool IsCopied() const { return copied_.query(); }

  // The batch copied last, for work on the current stream.
  const Batch& Use();

  // All uses are now enqueued on the current stream.
  void EndUse();

 private:
  c10::Stream CurrentStream() const;

  const c10::Stream copies_;
  Batch whole_;  // All rows.
  Batch batch_;  // Those of the last copy.
  c10::Event copied_;
  c10::Event used_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_DEVICE_BATCH_H_
