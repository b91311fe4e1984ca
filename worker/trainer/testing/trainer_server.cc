// trainer_server: starts trainers on the CPU (serve_trainers.h).
//
// With --fake-memory as last argument, the trainer reports the memory of a device that has had its
// troubles before the first step: one allocation that was tried again, one that failed, and a large
// block that is free again.
#include <string>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/testing/fake_memory_platform.h"
#include "worker/trainer/testing/serve_trainers.h"
#include "worker/trainer/trainer_main.h"

namespace {

int RunTrainerOnCpu(int argc, char** argv) {
  if (argc == 0 || std::string(argv[argc - 1]) != "--fake-memory") {
    paceline::CpuPlatform platform;
    return paceline::TrainerMain(argc, argv, platform);
  }
  argv[argc - 1] = nullptr;
  paceline::FakeMemoryPlatform platform;
  platform.Allocate(1000);
  platform.Allocate(40 * paceline::FakeMemoryPlatform::kLarge);
  platform.Free(40 * paceline::FakeMemoryPlatform::kLarge);
  platform.Retry();
  platform.RunOut();
  return paceline::TrainerMain(argc - 1, argv, platform);
}

}  // namespace

int main() { return paceline::ServeTrainers(RunTrainerOnCpu); }
