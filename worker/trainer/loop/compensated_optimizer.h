// The optimizers of bfloat16 parameters with compensation (compensated_update.h has their rules).
//
// 8 bytes per parameter with AdamW: itself, its compensation, and two moments of 2 bytes each.
#ifndef WORKER_TRAINER_LOOP_COMPENSATED_OPTIMIZER_H_
#define WORKER_TRAINER_LOOP_COMPENSATED_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "worker/trainer/config.h"
#include "worker/trainer/loop/optimizer.h"

namespace paceline {

// `parameters` must be contiguous bfloat16 leaves on one device. Their compensation begins as 0.
std::unique_ptr<Optimizer> MakeCompensatedOptimizer(const OptimizerConfig& config,
                                                    std::vector<at::Tensor> parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_COMPENSATED_OPTIMIZER_H_
