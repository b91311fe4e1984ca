#include "worker/trainer/comm/cpu_platform.h"

#include <net/if.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "worker/trainer/comm/abortable_backend.h"
#include "worker/trainer/comm/cpu_host_copy.h"
#include "worker/trainer/telemetry/cpu_step_timer.h"

namespace paceline {
namespace {

std::shared_ptr<gloo::transport::Device> MakeDevice(const std::string& interface) {
  if (interface.empty()) return c10d::ProcessGroupGloo::createDefaultDevice();
  if (if_nametoindex(interface.c_str()) != 0) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(interface);
}

}  // namespace

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
  auto options = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(timeout));
  {
    const absl::MutexLock lock(&mu_);
    if (device_ == nullptr) device_ = MakeDevice(config.interface);
    options->devices.push_back(device_);
  }
  return MakeAbortable(c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank,
                                                                   membership.size, options));
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
