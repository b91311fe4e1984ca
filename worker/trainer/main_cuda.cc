// paceline-trainer-cuda: a rank on a GPU.
#include "worker/trainer/comm/cuda_platform.h"
#include "worker/trainer/trainer_main.h"

int main(int argc, char** argv) {
  paceline::CudaPlatform platform;
  return paceline::TrainerMain(argc, argv, platform);
}
