// The platform with one GPU per rank, and NCCL.
#ifndef WORKER_TRAINER_COMM_CUDA_PLATFORM_H_
#define WORKER_TRAINER_COMM_CUDA_PLATFORM_H_

#include <memory>
#include <optional>
#include <string>

#include "worker/trainer/comm/gloo_network.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/cuda/cuda_row_codec.h"

namespace paceline {

class CudaPlatform : public Platform {
 public:
  absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) override;

  // Returns when the communicator is ready, so that no step waits for it. On an error (a dead peer,
  // a late collective) NCCL's watchdog aborts the communicator and the process lives on: later
  // collectives throw.
  c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                            const Membership& membership,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            absl::Duration timeout) override;

  std::string DeviceName() const override;
  std::unique_ptr<StepTimer> MakeStepTimer(StepRingWriter& ring) override;
  std::optional<DeviceMemory> Memory() const override;
  void StartMemoryFigures() override;
  void ResetMemoryPeaks() override;
  void RecordMemory(bool on) override;
  absl::Status SnapshotMemory(const std::string& path) override;
  std::string DescribeOutOfMemory(const std::string& path) override;
  std::unique_ptr<StepGraph> MakeStepGraph() override;
  std::unique_ptr<DeviceStreams> MakeDeviceStreams() override;
  std::unique_ptr<HostCopy> StartHostCopy(const std::vector<HostCopyPiece>& pieces) override;
  void PinHostMemory(void* memory, size_t bytes) override;
  void UnpinHostMemory(void* memory) override;
  RowCodec& row_codec() override { return row_codec_; }

 private:
  c10::Device device_ = c10::kCPU;  // Until OpenDevice.
  CudaRowCodec row_codec_;
  GlooNetwork gloo_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CUDA_PLATFORM_H_
