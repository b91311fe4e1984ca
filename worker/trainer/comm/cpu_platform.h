// The platform for CPUs, with Gloo.
#ifndef WORKER_TRAINER_COMM_CPU_PLATFORM_H_
#define WORKER_TRAINER_COMM_CPU_PLATFORM_H_

#include "worker/trainer/comm/cpu_row_codec.h"
#include "worker/trainer/comm/gloo_network.h"
#include "worker/trainer/comm/platform.h"

namespace paceline {

class CpuPlatform : public Platform {
 public:
  absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) override;
  c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                            const Membership& membership,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            absl::Duration timeout) override;
  std::string DeviceName() const override { return {}; }
  std::unique_ptr<StepTimer> MakeStepTimer(StepRingWriter& ring) override;
  std::optional<DeviceMemory> Memory() const override { return std::nullopt; }
  void StartMemoryFigures() override {}
  void ResetMemoryPeaks() override {}
  void RecordMemory(bool /*on*/) override {}
  absl::Status SnapshotMemory(const std::string& path) override;
  std::unique_ptr<HostCopy> StartHostCopy(const std::vector<HostCopyPiece>& pieces) override;
  void PinHostMemory(void* /*memory*/, size_t /*bytes*/) override {}
  void UnpinHostMemory(void* /*memory*/) override {}
  RowCodec& row_codec() override { return row_codec_; }

 private:
  CpuRowCodec row_codec_;
  GlooNetwork gloo_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CPU_PLATFORM_H_
