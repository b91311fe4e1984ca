// The few calls of NVIDIA's management library that we use, if it is installed: opened at run time,
// so that no program needs a driver.
//
// A broken GPU may make any call hang. Thread-compatible.
#ifndef WORKER_NVML_NVML_H_
#define WORKER_NVML_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace paceline {

class Nvml {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  // Null when there is no library, or no driver that it could talk to.
  static std::unique_ptr<Nvml> Open(const std::string& library = kLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int Gpus() const;

  // Of the GPU of index `gpu`. Nothing, or "unknown GPU", where the library does not tell.
  std::string Name(int gpu) const;
  std::optional<int> Celsius(int gpu) const;
  // Uncorrected, since the driver was loaded.
  std::optional<int64_t> EccErrors(int gpu) const;
  // Rows of memory that could not be replaced by spare ones.
  std::optional<bool> RemappingFailed(int gpu) const;
  // Slowed down by heat, a power brake or its hardware, not by its usual power limit.
  std::optional<bool> Throttled(int gpu) const;
  // Empty where it is not told.
  std::string Uuid(int gpu) const;
  // Share of the last sample period (up to a second) in which a kernel ran, 0 to 1.
  std::optional<double> Utilization(int gpu) const;
  std::optional<int64_t> MemoryUsed(int gpu) const;
  std::optional<int64_t> MemoryCapacity(int gpu) const;
  // Since the driver was loaded.
  std::optional<double> Joules(int gpu) const;
  // Clock of the multiprocessors.
  std::optional<double> SmHertz(int gpu) const;

 private:
  struct Calls;
  struct Memory;
  explicit Nvml(std::unique_ptr<Calls> calls);
  void* Device(int gpu) const;
  std::optional<Memory> ReadMemory(int gpu) const;

  const std::unique_ptr<Calls> calls_;
};

}  // namespace paceline

#endif  // WORKER_NVML_NVML_H_
