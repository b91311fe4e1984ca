#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/models.h"
#include "worker/trainer/model/sync_batch_norm.h"

namespace paceline {
namespace {

// The network of "Deep Residual Learning for Image Recognition" with 18 layers, with
// torchvision's names, order of parameters, strides and initialisation.
class ResNet18 : public Classifier {
 public:
  ResNet18(const ImageFormat& format, bool sync_batchnorm, at::Device device)
      : Classifier(device),
        sync_batchnorm_(sync_batchnorm),
        height_(format.height),
        width_(format.width) {
    // The counters of all normalisations, in one tensor: one addition per pass instead of 20.
    counters_ = at::zeros({kNorms}, at::dtype(at::kLong).device(device));
    conv1_ = AddConv("conv1", format.channels, 64, 7, 2);
    bn1_ = AddNorm("bn1", 64);
    Halve();  // For the pooling.
    int64_t channels = 64;
    for (int layer = 1; layer <= 4; ++layer) {
      const int64_t out = 32 << layer;
      for (int block = 0; block < 2; ++block) {
        const std::string name = "layer" + std::to_string(layer) + "." + std::to_string(block);
        blocks_.push_back(AddBlock(name, channels, out, layer > 1 && block == 0 ? 2 : 1));
        channels = out;
      }
    }
    fc_ = AddLinear("fc", channels, format.classes);
    multiply_adds_ += static_cast<double>(channels) * format.classes;
  }

  at::Tensor Forward(const at::Tensor& images) override {
    if (training()) counters_.add_(1);
    at::Tensor x = at::conv2d(images, conv1_, {}, /*stride=*/2, /*padding=*/3);
    x = Normalize(bn1_, x).relu_();
    x = at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (const Block& block : blocks_) x = Forward(block, x);
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);  // [batch, 512]
    return at::linear(x, fc_.weight, fc_.bias);
  }

  Flops FlopsPerSample() const override {
    Flops flops;
    flops.convolutions = FlopsOfMultiplyAdds(multiply_adds_);  // But for the head.
    return flops;
  }

  absl::Status CheckBatch(int64_t samples, int ranks) const override {
    if (samples > 1 || height_ * width_ > 1 || (sync_batchnorm_ && ranks > 1)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a rank has one sample, but resnet18 on these images has layers of 1 x 1, whose BatchNorm "
        "needs more than one value per channel to train; give a batch_per_rank of at least 2",
        sync_batchnorm_ ? ", as a rank may have no other to normalise with"
                        : ", or several ranks and model.sync_batchnorm"));
  }

  void SetActiveGroup(Group* group) override {
    group_ = sync_batchnorm_ && group != nullptr && group->size() > 1 ? group : nullptr;
  }

 private:
  static constexpr int64_t kNorms = 20;

  struct Downsample {
    at::Tensor conv;
    BatchNormState norm;
  };
  // Two 3x3 convolutions and their shortcut.
  struct Block {
    int64_t stride;
    at::Tensor conv1;
    BatchNormState bn1;
    at::Tensor conv2;
    BatchNormState bn2;
    std::optional<Downsample> downsample;  // Set when the shape changes.
  };

  // Halves the image size, as stride 2 with (kernel - 1) / 2 of padding does.
  void Halve() {
    height_ = (height_ + 1) / 2;
    width_ = (width_ + 1) / 2;
  }

  // Normal with variance 2 / (out * kernel^2). Counts its multiply-adds at the current image size.
  at::Tensor AddConv(const std::string& name, int64_t in, int64_t out, int64_t kernel,
                     int64_t stride) {
    if (stride == 2) Halve();
    multiply_adds_ += static_cast<double>(height_ * width_ * in * out * kernel * kernel);
    const double deviation = std::sqrt(2.0 / static_cast<double>(out * kernel * kernel));
    return AddParameter(name + ".weight",
                        at::empty({out, in, kernel, kernel}).normal_(0, deviation));
  }

  BatchNormState AddNorm(const std::string& name, int64_t channels) {
    BatchNormState norm;
    norm.weight = AddParameter(name + ".weight", at::ones({channels}));
    norm.bias = AddParameter(name + ".bias", at::zeros({channels}));
    norm.running_mean = AddBuffer(name + ".running_mean", at::zeros({channels}));
    norm.running_variance = AddBuffer(name + ".running_var", at::ones({channels}));
    AddBuffer(name + ".num_batches_tracked", counters_.select(0, norms_++));
    return norm;
  }

  Block AddBlock(const std::string& name, int64_t in, int64_t out, int64_t stride) {
    Block block;
    block.stride = stride;
    block.conv1 = AddConv(name + ".conv1", in, out, 3, stride);
    block.bn1 = AddNorm(name + ".bn1", out);
    block.conv2 = AddConv(name + ".conv2", out, out, 3, 1);
    block.bn2 = AddNorm(name + ".bn2", out);
    if (stride != 1 || in != out) {
      Downsample downsample;
      // conv1 has already applied its stride.
      downsample.conv = AddConv(name + ".downsample.0", in, out, 1, 1);
      downsample.norm = AddNorm(name + ".downsample.1", out);
      block.downsample = downsample;
    }
    return block;
  }

  at::Tensor Normalize(BatchNormState norm, const at::Tensor& x) {
    // Like the running values; both are small.
    norm.weight = Widened(norm.weight);
    norm.bias = Widened(norm.bias);
    constexpr double kMomentum = 0.1;
    constexpr double kEpsilon = 1e-5;
    if (training() && group_ != nullptr) {
      return SyncBatchNorm(x, norm, kMomentum, kEpsilon, *group_);
    }
    // Torch's operator would make the running variance NaN; its Python layer refuses, too.
    TORCH_CHECK_VALUE(
        !training() || x.numel() > x.size(1),
        "BatchNorm needs more than one value per channel to train, and a batch of one "
        "image has one in the last layers: raise batch_per_rank, and leave data.drop_last out");
    return at::batch_norm(x, norm.weight, norm.bias, norm.running_mean, norm.running_variance,
                          training(), kMomentum, kEpsilon, /*cudnn_enabled=*/true);
  }

  at::Tensor Forward(const Block& block, const at::Tensor& x) {
    at::Tensor y = at::conv2d(x, block.conv1, {}, block.stride, /*padding=*/1);
    y = Normalize(block.bn1, y).relu_();
    y = at::conv2d(y, block.conv2, {}, /*stride=*/1, /*padding=*/1);
    y = Normalize(block.bn2, y);
    if (!block.downsample.has_value()) return y.add_(x).relu_();
    const at::Tensor around = at::conv2d(x, block.downsample->conv, {}, block.stride);
    return y.add_(Normalize(block.downsample->norm, around)).relu_();
  }

  const bool sync_batchnorm_;
  Group* group_ = nullptr;  // Null: each rank normalises by its own batch.
  at::Tensor counters_;
  int64_t norms_ = 0;
  int64_t height_;  // Image size at this point of construction.
  int64_t width_;
  double multiply_adds_ = 0;  // Of a forward pass, per sample.
  at::Tensor conv1_;
  BatchNormState bn1_;
  std::vector<Block> blocks_;
  Linear fc_;
};

}  // namespace

std::unique_ptr<Classifier> MakeResNet18(const ImageFormat& format, bool sync_batchnorm,
                                         at::Device device) {
  return std::make_unique<ResNet18>(format, sync_batchnorm, device);
}

}  // namespace paceline
