// The kinds of models, for MakeModel alone and for tests.
#ifndef WORKER_TRAINER_MODEL_MODELS_H_
#define WORKER_TRAINER_MODEL_MODELS_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/image_shard/image_shard.h"
#include "worker/trainer/model/classifier.h"

namespace paceline {

// Linear layers with ReLU between them; `hidden` holds the widths of the hidden ones.
std::unique_ptr<Classifier> MakeMlp(const ImageFormat& format, const std::vector<int64_t>& hidden,
                                    at::Device device);

std::unique_ptr<Classifier> MakeResNet18(const ImageFormat& format, at::Device device);

std::unique_ptr<Classifier> MakeLlama(const LlamaConfig& config, int64_t sequence_length,
                                      at::Device device);

// Of forward and backward pass, where the forward pass takes so many multiply-adds: two
// operations each, and twice as many again for the gradients of inputs and weights.
inline double FlopsOfMultiplyAdds(double multiply_adds) { return 3 * 2 * multiply_adds; }

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODELS_H_
