// A network: named parameters and buffers, and the loss of a batch.
//
// The names are those of the same network in Python, so that weights travel both ways.
// Parameters are listed in the order in which Python's module lists them.
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

namespace paceline {

class Group;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool frozen = false;  // A buffer that never changes.
};

// A further name of a parameter or buffer, as of a head that is the embedding.
struct TiedName {
  std::string name;
  std::string first;  // The name by which it is a parameter or buffer.
};

// Without their names.
std::vector<at::Tensor> TensorsOf(const std::vector<NamedTensor>& named);

// Sums over the predictions of a batch: one for each image, one for each token.
struct Score {
  double loss = 0;
  double correct = 0;  // Negative: the model makes no predictions (a TorchScript module).
  double predictions = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // The mean loss of the batch: a scalar, float32, that requires gradients. Whatever it was
  // computed from, and is not needed for the backward pass, is released on return.
  virtual at::Tensor Loss(const Batch& batch) = 0;

  // How well the model predicts the targets, in the mode that the caller has set and without
  // gradients.
  virtual Score Evaluate(const Batch& batch) = 0;

  // Floating-point operations of forward and backward per sample by formula; 0: not known.
  virtual double FlopsPerSample() const { return 0; }

  // InvalidArgument when it cannot train on so many samples in a pass of each of so many ranks.
  virtual absl::Status CheckBatch(int64_t /*samples*/, int /*ranks*/) const {
    return absl::OkStatus();
  }

  // Training (the initial mode) or evaluation: how normalisation behaves.
  virtual void SetTraining(bool training) { training_ = training; }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  // Of those that have several names; each is trained once, by the first.
  const std::vector<TiedName>& tied() const { return tied_; }
  at::Device device() const { return device_; }

  // The ranks over whose batches a synchronised normalisation takes its statistics from now on:
  // all that take part in the next steps. Null (at the start): this rank's batch alone.
  virtual void SetActiveGroup(Group* /*group*/) {}

 protected:
  explicit Model(at::Device device) : device_(device) {}

  // Moves `initial` to the device and registers it: one that is registered already, as another name
  // of it. The result is the registered tensor.
  at::Tensor AddParameter(std::string name, at::Tensor initial);
  at::Tensor AddBuffer(std::string name, at::Tensor initial, bool frozen = false);

  // Weights [out, in] and bias [out], uniform within +-1/sqrt(in) as in torch.nn.Linear.
  struct Linear {
    at::Tensor weight;
    at::Tensor bias;
  };
  Linear AddLinear(const std::string& name, int64_t in, int64_t out);

  bool training() const { return training_; }

 private:
  at::Tensor Add(NamedTensor named, std::vector<NamedTensor>* list);

  const at::Device device_;
  bool training_ = true;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<TiedName> tied_;
};

// A new model on `device` for data of this format. Its weights depend on `seed` only, not on
// rank or device. InvalidArgument when model and data do not go together or a TorchScript file
// cannot be loaded.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config,
                                                 const SampleFormat& format, uint64_t seed,
                                                 at::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODEL_H_
