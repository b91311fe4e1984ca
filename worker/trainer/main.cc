// paceline-trainer: a rank on the CPU.
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/trainer_main.h"

int main(int argc, char** argv) {
  paceline::CpuPlatform platform;
  return paceline::TrainerMain(argc, argv, platform);
}
