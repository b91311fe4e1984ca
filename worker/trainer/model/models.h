// The kinds of models; only for MakeModel and tests.
#ifndef WORKER_TRAINER_MODEL_MODELS_H_
#define WORKER_TRAINER_MODEL_MODELS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/core/model_size.h"
#include "common/image_shard/image_shard.h"
#include "worker/trainer/model/classifier.h"

namespace paceline {

// Linear layers with ReLU between them; `hidden` has the widths of the hidden layers.
std::unique_ptr<Classifier> MakeMlp(const ImageFormat& format, const std::vector<int64_t>& hidden,
                                    at::Device device);

std::unique_ptr<Classifier> MakeResNet18(const ImageFormat& format, bool sync_batchnorm,
                                         at::Device device);

// All sizes of `config` must be set. `chunk_bytes`: of the float logits that the loss has at once.
std::unique_ptr<Classifier> MakeLlama(const LlamaConfig& config, int64_t sequence_length,
                                      at::Device device, int64_t chunk_bytes = kLogitsChunkBytes);

// Loads the module in `file` and tries it on a batch of `format`. InvalidArgument, naming the file,
// when it cannot be loaded or does not return a loss.
absl::StatusOr<std::unique_ptr<Model>> LoadTorchScript(const std::string& file,
                                                       const SampleFormat& format,
                                                       at::Device device);

// Loads the compiled model in `file`, and the weights beside it. InvalidArgument, naming the file,
// when it cannot be loaded, cannot run here, or is for other data.
absl::StatusOr<std::unique_ptr<Model>> LoadCompiled(const std::string& file,
                                                    const SampleFormat& format, at::Device device);

// In float32, unless it is that or wider: for weights in whose gradients many terms are added up.
inline at::Tensor Widened(const at::Tensor& x) {
  return x.to(c10::promoteTypes(at::kFloat, x.scalar_type()));
}

// Operations of forward and backward pass when the forward pass takes this many multiply-adds: two
// per multiply-add, and twice as many again for the gradients of inputs and weights.
inline double FlopsOfMultiplyAdds(double multiply_adds) { return 3 * 2 * multiply_adds; }

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODELS_H_
