// What differs between a trainer on the CPU and one on CUDA: the device and the backend of
// the collectives. Each program has one platform.
#ifndef WORKER_TRAINER_COMM_PLATFORM_H_
#define WORKER_TRAINER_COMM_PLATFORM_H_

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/config.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace paceline {

class Platform {
 public:
  virtual ~Platform() = default;

  // The device to train on, made ready. InvalidArgument when this program or this machine
  // does not have what the job asks for.
  virtual absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) = 0;

  // Connects this rank with the others, who all call it with the same store, within
  // `timeout`. Torch's exceptions pass through.
  virtual c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    absl::Duration timeout) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLATFORM_H_
