#include "worker/trainer/comm/cpu_platform.h"

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/trainer/comm/cpu_host_copy.h"
#include "worker/trainer/telemetry/cpu_step_timer.h"

namespace paceline {

absl::StatusOr<c10::Device> CpuPlatform::OpenDevice(const TrainerConfig& config) {
  if (config.cuda) {
    return absl::InvalidArgumentError(
        "the job asks for CUDA, but this is the trainer for CPUs; start it with the CUDA trainer");
  }
  return c10::Device(c10::kCPU);
}

c10::intrusive_ptr<c10d::Backend> CpuPlatform::Connect(const TrainerConfig& config,
                                                       const Membership& membership,
                                                       const c10::intrusive_ptr<c10d::Store>& store,
                                                       absl::Duration timeout) {
  return gloo_.Connect(config, membership, store, timeout);
}

std::unique_ptr<StepTimer> CpuPlatform::MakeStepTimer(StepRingWriter& ring) {
  return std::make_unique<CpuStepTimer>(ring);
}

std::unique_ptr<HostCopy> CpuPlatform::StartHostCopy(const std::vector<HostCopyPiece>& pieces) {
  return std::make_unique<CpuHostCopy>(pieces);
}

absl::Status CpuPlatform::SnapshotMemory(const std::string& /*path*/) {
  return absl::UnimplementedError("there are no memory snapshots on a CPU");
}

}  // namespace paceline
