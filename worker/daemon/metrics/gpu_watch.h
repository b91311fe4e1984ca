// Reads the node's GPUs every few seconds on its own thread: a broken GPU may make any call into
// the driver's library hang, and nothing here waits for that.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_METRICS_GPU_WATCH_H_
#define WORKER_DAEMON_METRICS_GPU_WATCH_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/daemon/metrics/gpu_metrics.h"
#include "worker/nvml/nvml.h"

namespace paceline {

inline constexpr absl::Duration kGpuReadInterval = absl::Seconds(5);

std::vector<GpuFigures> ReadGpus(const Nvml& nvml);

class GpuWatch {
 public:
  // Called on the watch's thread, never after the destructor has begun.
  using Tell = std::function<void(const std::vector<GpuFigures>&)>;

  // Never calls `tell` when there is no driver library or no GPU.
  explicit GpuWatch(Tell tell, absl::Duration interval = kGpuReadInterval,
                    std::string library = Nvml::kLibrary);
  // Waits for a running call of `tell`, but not for the library: a thread that hangs there stays
  // until the process exits.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

 private:
  struct Shared;

  const std::shared_ptr<Shared> shared_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_GPU_WATCH_H_
