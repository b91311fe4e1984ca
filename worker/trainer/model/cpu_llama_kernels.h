// The loops of a Llama on the CPU, over the threads of torch's pool.
#ifndef WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_
#define WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_

#include "worker/trainer/model/llama_kernels.h"

namespace paceline {

// Lives until the process ends.
const LlamaKernels& CpuLlamaKernels();

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_
