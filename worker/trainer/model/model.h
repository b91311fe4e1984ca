// A network that is built in: its tensors, the loss of a batch, and its score.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_MODEL_MODEL_H_
#define WORKER_TRAINER_MODEL_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/config.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/model/gathered_weights.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// Sums over a batch's predictions: one per image or per token.
struct Score {
  double loss = 0;
  double correct = 0;  // Negative: the model (TorchScript, compiled) makes no predictions.
  double predictions = 0;
};

class Model : public ModelTensors {
 public:
  // The batch's mean loss: a float32 scalar that requires gradients. Intermediate results that the
  // backward pass does not need are freed on return.
  virtual at::Tensor Loss(const Batch& batch) = 0;

  // How well the model predicts the targets, in its current mode and without gradients.
  virtual Score Evaluate(const Batch& batch) = 0;

  // InvalidArgument when it cannot train on this many samples per pass and rank.
  virtual absl::Status CheckBatch(int64_t /*samples*/, int /*ranks*/) const {
    return absl::OkStatus();
  }

  // From now on each block gathers its matrices before it computes, and releases them afterwards:
  // `blocks` has one entry for each, in order, which must outlive the model's use. Throws
  // c10::Error unless the model's blocks are recomputed in the backward pass.
  virtual void SetGatheredBlocks(const std::vector<GatheredWeights*>& blocks);

  // Training (the initial mode) or evaluation; affects normalisation.
  virtual void SetTraining(bool training) { training_ = training; }

 protected:
  explicit Model(at::Device device) : ModelTensors(device) {}

  // Weights [out, in] and bias [out], uniform within +-1/sqrt(in), as in torch.nn.Linear.
  struct Linear {
    at::Tensor weight;
    at::Tensor bias;
  };
  Linear AddLinear(const std::string& name, int64_t in, int64_t out);

  bool training() const { return training_; }

 private:
  bool training_ = true;
};

// Makes a model on `device` for data of this format. Its weights depend on `seed` only, not on rank
// or device. InvalidArgument when model and data do not match or a file cannot be loaded.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config,
                                                 const SampleFormat& format, uint64_t seed,
                                                 at::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODEL_H_
