// One GPU for each rank, and NCCL.
#ifndef WORKER_TRAINER_COMM_CUDA_PLATFORM_H_
#define WORKER_TRAINER_COMM_CUDA_PLATFORM_H_

#include "worker/trainer/comm/platform.h"

namespace paceline {

class CudaPlatform : public Platform {
 public:
  absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) override;
  c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            absl::Duration timeout) override;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CUDA_PLATFORM_H_
