// A fake management library with two GPUs: one is healthy, the other reports as little as allowed.
#include <cstring>

namespace {

int devices[2];

bool IsFirst(void* device) { return device == &devices[0]; }

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): names are NVML's.

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 2) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  if (!IsFirst(device)) return 3;
  std::strncpy(name, "Fake GPU", size);
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (!IsFirst(device) || sensor != 0) return 3;
  *celsius = 45;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  if (!IsFirst(device) || type != 1 || counter != 0) return 3;
  *count = 2;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (!IsFirst(device)) return 3;
  *reasons = 0x40 | 0x1;
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  if (!IsFirst(device)) return 3;
  std::strncpy(uuid, "GPU-1", size);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (!IsFirst(device)) return 3;
  rates[0] = 75;
  rates[1] = 20;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  if (!IsFirst(device)) return 3;
  memory[0] = 100;
  memory[1] = 60;
  memory[2] = 40;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long used = 0;
  if (!IsFirst(device)) return 3;
  used += 1500;
  *millijoules = used;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* megahertz) {
  if (!IsFirst(device) || type != 1) return 3;
  *megahertz = 1980;
  return 0;
}

// NOLINTEND(readability-identifier-naming)

}  // extern "C"
