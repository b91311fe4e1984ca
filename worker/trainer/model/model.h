// A network: named parameters and buffers, and a forward pass.
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

#include "worker/trainer/config.h"

namespace paceline {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// What goes in and what comes out.
struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // [batch, channels, height, width] -> scores [batch, classes].
  virtual at::Tensor Forward(const at::Tensor& images) = 0;

  // Training (the initial mode) or evaluation: how normalisation behaves.
  void SetTraining(bool training) { training_ = training; }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  at::Device device() const { return device_; }

 protected:
  explicit Model(at::Device device) : device_(device) {}

  // Moves `initial` to the device and registers it. The result is the registered tensor.
  at::Tensor AddParameter(std::string name, at::Tensor initial);
  at::Tensor AddBuffer(std::string name, at::Tensor initial);

  // Weights [out, in] and bias [out], uniform within +-1/sqrt(in) as in torch.nn.Linear.
  struct Linear {
    at::Tensor weight;
    at::Tensor bias;
  };
  Linear AddLinear(const std::string& name, int64_t in, int64_t out);

  bool training() const { return training_; }

 private:
  const at::Device device_;
  bool training_ = true;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
};

// A new model on `device`. Its weights depend on `seed` only, not on rank or device.
std::unique_ptr<Model> MakeModel(const ModelConfig& config, const ImageShape& shape, uint64_t seed,
                                 at::Device device);

// One for each kind, drawing from the default generator.
std::unique_ptr<Model> MakeResNet18(const ImageShape& shape, at::Device device);
std::unique_ptr<Model> MakeMlp(const ImageShape& shape, const std::vector<int64_t>& hidden,
                               at::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODEL_H_
