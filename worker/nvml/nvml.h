// The few calls of NVIDIA's management library that we use. The library is opened at run time if it
// is installed, so that no program needs a driver.
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

  // Null when there is no library, or no driver for it to talk to.
  static std::unique_ptr<Nvml> Open(const std::string& library = kLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int Gpus() const;

  // All about the GPU of index `gpu`; nothing, or "unknown GPU", where the library does not say.
  std::string Name(int gpu) const;
  std::optional<int> Celsius(int gpu) const;
  // Number of uncorrected errors since the driver was loaded.
  std::optional<int64_t> EccErrors(int gpu) const;
  // Whether spare rows could not replace some bad rows of memory.
  std::optional<bool> RemappingFailed(int gpu) const;
  // Slowed down by heat, a power brake or the hardware; the usual power limit does not count.
  std::optional<bool> Throttled(int gpu) const;
  // Empty when unknown.
  std::string Uuid(int gpu) const;
  // Share, 0 to 1, of the last sample period (up to a second) in which a kernel ran.
  std::optional<double> Utilization(int gpu) const;
  std::optional<int64_t> MemoryUsed(int gpu) const;
  std::optional<int64_t> MemoryCapacity(int gpu) const;
  // Energy used since the driver was loaded.
  std::optional<double> Joules(int gpu) const;
  // Clock rate of the multiprocessors.
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
