#include "worker/nvml/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace paceline {
namespace {

// From nvml.h.
constexpr int kTemperatureGpu = 0;
constexpr int kUncorrected = 1;
constexpr int kVolatile = 0;
constexpr int kClockSm = 1;
constexpr unsigned kUuidBytes = 96;
// Hardware slowdown, software and hardware thermal slowdown, power brake.
constexpr unsigned long long kThrottled = 0x8 | 0x20 | 0x40 | 0x80;

template <typename Function>
bool Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// nvmlUtilization_t: percent.
struct Rates {
  unsigned gpu = 0;
  unsigned memory = 0;
};

}  // namespace

// nvmlMemory_t.
struct Nvml::Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// Each returns 0 on success. Those below the line may be missing.
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
  int (*uuid)(void*, char*, unsigned) = nullptr;
  int (*utilization)(void*, Rates*) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
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
  Load(from, "nvmlDeviceGetUUID", calls->uuid);
  Load(from, "nvmlDeviceGetUtilizationRates", calls->utilization);
  Load(from, "nvmlDeviceGetMemoryInfo", calls->memory);
  Load(from, "nvmlDeviceGetTotalEnergyConsumption", calls->energy);
  Load(from, "nvmlDeviceGetClockInfo", calls->clock);
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

std::string Nvml::Uuid(int gpu) const {
  void* const device = Device(gpu);
  char uuid[kUuidBytes] = "";
  if (device == nullptr || calls_->uuid == nullptr ||
      calls_->uuid(device, uuid, sizeof(uuid)) != 0) {
    return "";
  }
  return uuid;
}

std::optional<double> Nvml::Utilization(int gpu) const {
  void* const device = Device(gpu);
  Rates rates;
  if (device == nullptr || calls_->utilization == nullptr ||
      calls_->utilization(device, &rates) != 0) {
    return std::nullopt;
  }
  return rates.gpu / 100.0;
}

std::optional<Nvml::Memory> Nvml::ReadMemory(int gpu) const {
  void* const device = Device(gpu);
  Memory memory;
  if (device == nullptr || calls_->memory == nullptr || calls_->memory(device, &memory) != 0) {
    return std::nullopt;
  }
  return memory;
}

std::optional<int64_t> Nvml::MemoryUsed(int gpu) const {
  const std::optional<Memory> memory = ReadMemory(gpu);
  if (!memory.has_value()) return std::nullopt;
  return static_cast<int64_t>(memory->used);
}

std::optional<int64_t> Nvml::MemoryCapacity(int gpu) const {
  const std::optional<Memory> memory = ReadMemory(gpu);
  if (!memory.has_value()) return std::nullopt;
  return static_cast<int64_t>(memory->total);
}

std::optional<double> Nvml::Joules(int gpu) const {
  void* const device = Device(gpu);
  unsigned long long millijoules = 0;
  if (device == nullptr || calls_->energy == nullptr || calls_->energy(device, &millijoules) != 0) {
    return std::nullopt;
  }
  return static_cast<double>(millijoules) / 1000;
}

std::optional<double> Nvml::SmHertz(int gpu) const {
  void* const device = Device(gpu);
  unsigned megahertz = 0;
  if (device == nullptr || calls_->clock == nullptr ||
      calls_->clock(device, kClockSm, &megahertz) != 0) {
    return std::nullopt;
  }
  return megahertz * 1e6;
}

void* Nvml::Device(int gpu) const {
  void* device = nullptr;
  return calls_->device(static_cast<unsigned>(gpu), &device) == 0 ? device : nullptr;
}

}  // namespace paceline
