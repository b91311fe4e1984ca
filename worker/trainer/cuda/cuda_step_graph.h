// A training step as one CUDA graph.
#ifndef WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_
#define WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_

#include <memory>

#include "worker/trainer/comm/step_graph.h"

namespace paceline {

// Uses the current device. Eager steps and the capture use a separate stream, since a graph cannot
// be captured on the default one; each Run is ordered with the caller's stream as if it ran there.
// Memory that a step allocates stays reserved for the graph.
std::unique_ptr<StepGraph> MakeCudaStepGraph();

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_STEP_GRAPH_H_
