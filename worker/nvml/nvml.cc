#include "worker/nvml/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace paceline {
namespace {

// nvml.h.
constexpr int kTemperatureGpu = 0;
constexpr int kUncorrected = 1;
constexpr int kVolatile = 0;
// Hardware slowdown, software and hardware thermal slowdown, power brake.
constexpr unsigned long long kThrottled = 0x8 | 0x20 | 0x40 | 0x80;

template <typename Function>
bool Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// Each returns 0 on success. Those behind the line may be missing.
struct Nvml::Calls {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, void**) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  // ----
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*ecc_errors)(void*, int, int, unsigned long long*) = nullptr;
  int (*remapped_rows)(void*, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*throttle_reasons)(void*, unsigned long long*) = nullptr;
};

std::unique_ptr<Nvml> Nvml::Open(const std::string& library) {
  auto calls = std::make_unique<Calls>();
  calls->library = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (calls->library == nullptr) return nullptr;
  void* const from = calls->library;
  const bool loaded = Load(from, "nvmlInit_v2", calls->init) &&
                      Load(from, "nvmlShutdown", calls->shutdown) &&
                      Load(from, "nvmlDeviceGetCount_v2", calls->count) &&
                      Load(from, "nvmlDeviceGetHandleByIndex_v2", calls->device) &&
                      Load(from, "nvmlDeviceGetName", calls->name);
  Load(from, "nvmlDeviceGetTemperature", calls->temperature);
  Load(from, "nvmlDeviceGetTotalEccErrors", calls->ecc_errors);
  Load(from, "nvmlDeviceGetRemappedRows", calls->remapped_rows);
  Load(from, "nvmlDeviceGetCurrentClocksThrottleReasons", calls->throttle_reasons);
  if (!loaded || calls->init() != 0) {
    ::dlclose(from);
    return nullptr;
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(calls)));
}

Nvml::Nvml(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}

Nvml::~Nvml() {
  calls_->shutdown();
  ::dlclose(calls_->library);
}

int Nvml::Gpus() const {
  unsigned count = 0;
  return calls_->count(&count) == 0 ? static_cast<int>(count) : 0;
}

std::string Nvml::Name(int gpu) const {
  char name[128] = "unknown GPU";
  if (void* const device = Device(gpu)) calls_->name(device, name, sizeof(name));
  return name;
}

std::optional<int> Nvml::Celsius(int gpu) const {
  void* const device = Device(gpu);
  unsigned value = 0;
  if (device == nullptr || calls_->temperature == nullptr ||
      calls_->temperature(device, kTemperatureGpu, &value) != 0) {
    return std::nullopt;
  }
  return static_cast<int>(value);
}

std::optional<int64_t> Nvml::EccErrors(int gpu) const {
  void* const device = Device(gpu);
  unsigned long long value = 0;
  if (device == nullptr || calls_->ecc_errors == nullptr ||
      calls_->ecc_errors(device, kUncorrected, kVolatile, &value) != 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

std::optional<bool> Nvml::RemappingFailed(int gpu) const {
  void* const device = Device(gpu);
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (device == nullptr || calls_->remapped_rows == nullptr ||
      calls_->remapped_rows(device, &corrected, &uncorrected, &pending, &failed) != 0) {
    return std::nullopt;
  }
  return failed != 0;
}

std::optional<bool> Nvml::Throttled(int gpu) const {
  void* const device = Device(gpu);
  unsigned long long reasons = 0;
  if (device == nullptr || calls_->throttle_reasons == nullptr ||
      calls_->throttle_reasons(device, &reasons) != 0) {
    return std::nullopt;
  }
  return (reasons & kThrottled) != 0;
}

void* Nvml::Device(int gpu) const {
  void* device = nullptr;
  return calls_->device(static_cast<unsigned>(gpu), &device) == 0 ? device : nullptr;
}

}  // namespace paceline
