#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

// Linear layers "layers.0", "layers.1", ... with ReLU between them.
class Mlp : public Classifier {
 public:
  Mlp(const ImageFormat& format, const std::vector<int64_t>& hidden, at::Device device)
      : Classifier(device) {
    auto width = static_cast<int64_t>(format.image_bytes());
    for (size_t i = 0; i <= hidden.size(); ++i) {
      const int64_t out = i < hidden.size() ? hidden[i] : static_cast<int64_t>(format.classes);
      layers_.push_back(AddLinear("layers." + std::to_string(i), width, out));
      multiply_adds_ += static_cast<double>(width) * static_cast<double>(out);
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

  Flops FlopsPerSample() const override {
    Flops flops;
    flops.matrices = FlopsOfMultiplyAdds(multiply_adds_);
    return flops;
  }

 private:
  std::vector<Linear> layers_;
  double multiply_adds_ = 0;  // Of a forward pass, per sample.
};

}  // namespace

std::unique_ptr<Classifier> MakeMlp(const ImageFormat& format, const std::vector<int64_t>& hidden,
                                    at::Device device) {
  return std::make_unique<Mlp>(format, hidden, device);
}

}  // namespace paceline
