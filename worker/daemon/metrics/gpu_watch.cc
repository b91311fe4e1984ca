#include "worker/daemon/metrics/gpu_watch.h"

#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

// State that outlives the watch when its thread hangs.
struct GpuWatch::Shared {
  explicit Shared(Tell to) : tell(std::move(to)) {}

  const Tell tell;
  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
};

namespace {

template <typename Shared>
void Watch(const std::shared_ptr<Shared>& shared, absl::Duration interval,
           const std::string& library) {
  const std::unique_ptr<Nvml> nvml = Nvml::Open(library);
  if (nvml == nullptr || nvml->Gpus() == 0) return;
  while (true) {
    const std::vector<GpuFigures> gpus = ReadGpus(*nvml);
    absl::MutexLock lock(&shared->mutex);
    if (shared->stopped) return;
    shared->tell(gpus);
    if (shared->mutex.AwaitWithTimeout(absl::Condition(&shared->stopped), interval)) return;
  }
}

}  // namespace

std::vector<GpuFigures> ReadGpus(const Nvml& nvml) {
  std::vector<GpuFigures> gpus;
  for (int g = 0; g < nvml.Gpus(); ++g) {
    GpuFigures& gpu = gpus.emplace_back();
    gpu.index = g;
    gpu.uuid = nvml.Uuid(g);
    gpu.utilization = nvml.Utilization(g);
    gpu.memory_used = nvml.MemoryUsed(g);
    gpu.memory_capacity = nvml.MemoryCapacity(g);
    gpu.celsius = nvml.Celsius(g);
    gpu.joules = nvml.Joules(g);
    gpu.sm_hertz = nvml.SmHertz(g);
    gpu.throttled = nvml.Throttled(g);
    gpu.ecc_errors = nvml.EccErrors(g);
    gpu.row_remap_failed = nvml.RemappingFailed(g);
  }
  return gpus;
}

GpuWatch::GpuWatch(Tell tell, absl::Duration interval, std::string library)
    : shared_(std::make_shared<Shared>(std::move(tell))) {
  std::thread([shared = shared_, interval, library = std::move(library)] {
    Watch(shared, interval, library);
  }).detach();
}

GpuWatch::~GpuWatch() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->stopped = true;
}

}  // namespace paceline
