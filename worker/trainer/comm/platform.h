// What differs between a trainer on the CPU and one on CUDA. Each program has one platform.
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
#include "worker/trainer/comm/device_streams.h"
#include "worker/trainer/comm/host_copy.h"
#include "worker/trainer/comm/int8_codec.h"
#include "worker/trainer/comm/step_graph.h"
#include "worker/trainer/config.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace paceline {

// One member of a group that is being made.
struct Membership {
  int rank = 0;  // In the group.
  int size = 1;
  bool high_priority = false;  // Its collectives overtake other work of the device.
  bool on_host = false;        // It exchanges tensors of the host, whatever the device.
  bool few_channels = false;   // Its collectives leave most of the device to other work.
};

class Platform {
 public:
  virtual ~Platform() = default;

  // The device to train on, made ready. InvalidArgument when this program or this machine
  // does not have what the job asks for.
  virtual absl::StatusOr<c10::Device> OpenDevice(const TrainerConfig& config) = 0;

  // Connects the members of a group, who all call it with the same store, within `timeout`.
  // Any thread. Torch's exceptions pass through.
  virtual c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                                    const Membership& membership,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    absl::Duration timeout) = 0;

  // As its vendor names it ("NVIDIA H200"); empty for a CPU. After OpenDevice, as all below.
  virtual std::string DeviceName() const = 0;

  // How the time of each step is taken. `ring` outlives the result.
  virtual std::unique_ptr<StepTimer> MakeStepTimer(StepRingWriter& ring) = 0;

  // Null for a CPU.
  virtual std::optional<DeviceMemory> Memory() const = 0;
  virtual void ResetMemoryPeaks() = 0;

  // Begins to record allocations, for SnapshotMemory. Nothing on a CPU.
  virtual void RecordMemory(bool on) = 0;
  // Writes them for PyTorch's memory viewer. Unimplemented on a CPU.
  virtual absl::Status SnapshotMemory(const std::string& path) = 0;

  // What a person needs to know of the device's memory after an allocation failed: the
  // allocator's statistics, and where its snapshot lies, which is written to `path` (of the
  // job's output; empty: none is written). Empty for a CPU. Never fails.
  virtual std::string DescribeOutOfMemory(const std::string& /*path*/) { return {}; }

  // Null for a CPU.
  virtual std::unique_ptr<StepGraph> MakeStepGraph() { return nullptr; }

  // Null for a CPU.
  virtual std::unique_ptr<DeviceStreams> MakeDeviceStreams() { return nullptr; }

  // Begins to copy memory of the device, as the training thread's work so far leaves it. Training
  // thread.
  virtual std::unique_ptr<HostCopy> StartHostCopy(const std::vector<HostCopyPiece>& pieces) = 0;
  // Makes memory of the host fit for such copies, until UnpinHostMemory. Any thread.
  virtual void PinHostMemory(void* memory, size_t bytes) = 0;
  virtual void UnpinHostMemory(void* memory) = 0;

  // For this device.
  virtual Int8Codec& int8_codec() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLATFORM_H_
