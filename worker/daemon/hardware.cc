#include "worker/daemon/hardware.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// The few calls of libnvidia-ml.so.1 that we use; each returns 0 on success.
struct Nvml {
  int (*init)() = nullptr;                        // nvmlInit_v2
  int (*shutdown)() = nullptr;                    // nvmlShutdown
  int (*count)(unsigned*) = nullptr;              // nvmlDeviceGetCount_v2
  int (*device)(unsigned, void**) = nullptr;      // nvmlDeviceGetHandleByIndex_v2
  int (*name)(void*, char*, unsigned) = nullptr;  // nvmlDeviceGetName
};

template <typename Function>
bool Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::vector<std::string> NamesFrom(const Nvml& nvml) {
  std::vector<std::string> names;
  unsigned count = 0;
  if (nvml.count(&count) != 0) return names;
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    char name[128] = "unknown GPU";
    if (nvml.device(i, &device) == 0) nvml.name(device, name, sizeof(name));
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> GpuNames() {
  std::vector<std::string> names;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return names;
  Nvml nvml;
  const bool loaded = Load(library, "nvmlInit_v2", nvml.init) &&
                      Load(library, "nvmlShutdown", nvml.shutdown) &&
                      Load(library, "nvmlDeviceGetCount_v2", nvml.count) &&
                      Load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
                      Load(library, "nvmlDeviceGetName", nvml.name);
  if (loaded && nvml.init() == 0) {
    names = NamesFrom(nvml);
    nvml.shutdown();
  }
  ::dlclose(library);
  return names;
}

// Those that this process may use, which in a container are fewer than the machine's.
int Cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

v1::Hardware ReadHardware() {
  v1::Hardware hardware;
  hardware.set_cpus(Cpus());
  hardware.set_memory_bytes(int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE));
  for (std::string& name : GpuNames()) hardware.add_gpus(std::move(name));
  utsname system;
  if (::uname(&system) == 0) {
    hardware.set_os(absl::StrCat(system.sysname, " ", system.release));
  }
  return hardware;
}

}  // namespace paceline
