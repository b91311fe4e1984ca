// A network: named parameters and buffers, and the loss of a batch.
//
// Names and order of parameters are those of the same network in Python, so that weights can be
// exchanged both ways.
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

// Another name of a parameter or buffer, for example of a head that is the embedding.
struct TiedName {
  std::string name;
  std::string first;  // Its name as parameter or buffer.
};

// Drops the names.
std::vector<at::Tensor> TensorsOf(const std::vector<NamedTensor>& named);

// Sums over a batch's predictions: one per image or per token.
struct Score {
  double loss = 0;
  double correct = 0;  // Negative: the model (TorchScript) makes no predictions.
  double predictions = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // The batch's mean loss: a float32 scalar that requires gradients. Intermediate results that the
  // backward pass does not need are freed on return.
  virtual at::Tensor Loss(const Batch& batch) = 0;

  // How well the model predicts the targets, in its current mode and without gradients.
  virtual Score Evaluate(const Batch& batch) = 0;

  // Operations of forward and backward pass per sample, by formula; 0: unknown.
  virtual double FlopsPerSample() const { return 0; }

  // InvalidArgument when it cannot train on this many samples per pass and rank.
  virtual absl::Status CheckBatch(int64_t /*samples*/, int /*ranks*/) const {
    return absl::OkStatus();
  }

  // Training (the initial mode) or evaluation; affects normalisation.
  virtual void SetTraining(bool training) { training_ = training; }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  // Further names of tensors that have several; each is trained once, under its first name.
  const std::vector<TiedName>& tied() const { return tied_; }
  at::Device device() const { return device_; }

  // Sets the ranks over whose batches synchronised normalisation takes its statistics: all that
  // take part in the next steps. Null (at the start): this rank's batch alone.
  virtual void SetActiveGroup(Group* /*group*/) {}

 protected:
  explicit Model(at::Device device) : device_(device) {}

  // Moves `initial` to the device, registers it and returns the registered tensor. One that is
  // registered already gets another name.
  at::Tensor AddParameter(std::string name, at::Tensor initial);
  at::Tensor AddBuffer(std::string name, at::Tensor initial, bool frozen = false);

  // Weights [out, in] and bias [out], uniform within +-1/sqrt(in), as in torch.nn.Linear.
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

// Makes a model on `device` for data of this format. Its weights depend on `seed` only, not on rank
// or device. InvalidArgument when model and data do not match or a TorchScript file cannot be
// loaded.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config,
                                                 const SampleFormat& format, uint64_t seed,
                                                 at::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODEL_H_
