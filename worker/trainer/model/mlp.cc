#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

// Linear layers "layers.0", "layers.1", ... with ReLU between them.
class Mlp : public Model {
 public:
  Mlp(const ImageShape& shape, const std::vector<int64_t>& hidden, at::Device device)
      : Model(device) {
    int64_t width = shape.channels * shape.height * shape.width;
    for (size_t i = 0; i <= hidden.size(); ++i) {
      const int64_t out = i < hidden.size() ? hidden[i] : shape.classes;
      layers_.push_back(AddLinear("layers." + std::to_string(i), width, out));
      width = out;
    }
  }

  at::Tensor Forward(const at::Tensor& images) override {
    at::Tensor x = images.flatten(1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i > 0) x = at::relu(x);
      x = at::linear(x, layers_[i].weight, layers_[i].bias);
    }
    return x;
  }

 private:
  std::vector<Linear> layers_;
};

}  // namespace

std::unique_ptr<Model> MakeMlp(const ImageShape& shape, const std::vector<int64_t>& hidden,
                               at::Device device) {
  return std::make_unique<Mlp>(shape, hidden, device);
}

}  // namespace paceline
