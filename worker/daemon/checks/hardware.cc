#include "worker/daemon/checks/hardware.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "worker/nvml/nvml.h"

namespace paceline {
namespace {

// Counts the CPUs that this process may use; in a container, fewer than the machine has.
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
  if (const std::unique_ptr<Nvml> nvml = Nvml::Open()) {
    for (int gpu = 0; gpu < nvml->Gpus(); ++gpu) {
      hardware.add_gpus(nvml->Name(gpu));
      hardware.add_gpu_memory_bytes(nvml->MemoryCapacity(gpu).value_or(0));
    }
  }
  utsname system;
  if (::uname(&system) == 0) {
    hardware.set_os(absl::StrCat(system.sysname, " ", system.release));
  }
  return hardware;
}

}  // namespace paceline
