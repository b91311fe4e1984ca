// The differences between CPU and CUDA trainers. Each program has one platform.
#ifndef WORKER_TRAINER_COMM_PLATFORM_H_
#define WORKER_TRAINER_COMM_PLATFORM_H_

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/device_streams.h"
#include "worker/trainer/comm/host_copy.h"
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/comm/step_graph.h"
#include "worker/trainer/config.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace paceline {

// How one member joins a group that is being made.
struct Membership {
  int rank = 0;  // Within the group.
  int size = 1;
  bool high_priority = false;  // Its collectives take priority on the device.
  bool on_host = false;        // It exchanges host tensors, whatever the device.
  bool few_channels = false;   // Its collectives leave most of the device to others.
};

class Platform {
 public:
  virtual ~Platform() = default;

  // Prepares the device to train on. InvalidArgument when this program or this machine lacks what
  // the job asks for.
  virtual absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) = 0;

  // Connects the members of a group, who all call this with the same store, within `timeout`. Any
  // thread. Torch's exceptions pass through.
  virtual c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                                    const Membership& membership,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    absl::Duration timeout) = 0;

  // The vendor's name ("NVIDIA H200"); empty for a CPU. Call this and all below after OpenDevice.
  virtual std::string DeviceName() const = 0;

  // Makes the timer for steps. `ring` must outlive the result.
  virtual std::unique_ptr<StepTimer> MakeStepTimer(StepRingWriter& ring) = 0;

  // Null for a CPU.
  virtual std::optional<DeviceMemory> Memory() const = 0;
  // Gives what the allocator keeps unused back to the device, and begins its peaks and counts anew.
  virtual void StartMemoryFigures() = 0;
  // Begins the peaks anew.
  virtual void ResetMemoryPeaks() = 0;

  // Starts or stops recording allocations for SnapshotMemory. No effect on a CPU.
  virtual void RecordMemory(bool on) = 0;
  // Writes the record for PyTorch's memory viewer. Unimplemented on a CPU.
  virtual absl::Status SnapshotMemory(const std::string& path) = 0;

  // Describes the device's memory to people after a failed allocation: the allocator's statistics,
  // and the path of its snapshot. Writes that to `path`, in the job's output, unless `path` is
  // empty. Returns "" on a CPU. Never fails.
  virtual std::string DescribeOutOfMemory(const std::string& /*path*/) { return {}; }

  // Null for a CPU.
  virtual std::unique_ptr<StepGraph> MakeStepGraph() { return nullptr; }

  // Null for a CPU.
  virtual std::unique_ptr<DeviceStreams> MakeDeviceStreams() { return nullptr; }

  // Begins to copy device memory as the training thread's work so far will leave it. Call it on the
  // training thread.
  virtual std::unique_ptr<HostCopy> StartHostCopy(const std::vector<HostCopyPiece>& pieces) = 0;
  // Prepares host memory for such copies, until UnpinHostMemory. Any thread.
  virtual void PinHostMemory(void* memory, size_t bytes) = 0;
  virtual void UnpinHostMemory(void* memory) = 0;

  // The codec for this device.
  virtual RowCodec& row_codec() = 0;

  // The connections of all groups that were made with this. Any thread.
  OwnConnections& connections() { return connections_; }

 private:
  OwnConnections connections_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLATFORM_H_
