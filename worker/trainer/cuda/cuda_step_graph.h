// A training step as one CUDA graph.
#ifndef WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_
#define WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_

#include <memory>

#include "worker/trainer/comm/step_graph.h"

namespace paceline {

// On the current device. The eager steps and the record use a stream of their own, since a
// graph cannot be recorded in the default one; each Run is ordered with the caller's stream
// as if it were there. What a step allocates stays allocated for the graph alone.
std::unique_ptr<StepGraph> MakeCudaStepGraph();

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_
