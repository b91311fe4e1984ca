// The kinds of models, for MakeModel alone and for tests.
#ifndef WORKER_TRAINER_MODEL_MODELS_H_
#define WORKER_TRAINER_MODEL_MODELS_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/image_shard/image_shard.h"
#include "worker/trainer/model/classifier.h"

namespace paceline {

// Linear layers with ReLU between them; `hidden` holds the widths of the hidden ones.
std::unique_ptr<Classifier> MakeMlp(const ImageFormat& format, const std::vector<int64_t>& hidden,
                                    at::Device device);

std::unique_ptr<Classifier> MakeResNet18(const ImageFormat& format, bool sync_batchnorm,
                                         at::Device device);

// `config` has all sizes.
std::unique_ptr<Classifier> MakeLlama(const LlamaConfig& config, int64_t sequence_length,
                                      at::Device device);

// The module in `file`, tried out on a batch of `format`. InvalidArgument, with the file, when
// there is none, or when what it returns is not a loss.
absl::StatusOr<std::unique_ptr<Model>> LoadTorchScript(const std::string& file,
                                                       const SampleFormat& format,
                                                       at::Device device);

// Of forward and backward pass, where the forward pass takes so many multiply-adds: two
// operations each, and twice as many again for the gradients of inputs and weights.
inline double FlopsOfMultiplyAdds(double multiply_adds) { return 3 * 2 * multiply_adds; }

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODELS_H_
