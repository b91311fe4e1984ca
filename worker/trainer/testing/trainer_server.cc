// trainer_server: starts trainers on the CPU (serve_trainers.h).
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/testing/serve_trainers.h"
#include "worker/trainer/trainer_main.h"

int main() {
  return paceline::ServeTrainers([](int argc, char** argv) {
    paceline::CpuPlatform platform;
    return paceline::TrainerMain(argc, argv, platform);
  });
}
