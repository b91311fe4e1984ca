#include <ATen/Context.h>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

absl::Status Unfit(absl::string_view kind, absl::string_view needs, absl::string_view has) {
  return absl::InvalidArgumentError(absl::StrCat("model.kind: ", kind, " needs ", needs,
                                                 ", and data.train holds ", has,
                                                 "; change one of the two"));
}

constexpr char kImages[] = "images (docs/image-shards.md)";
constexpr char kTokens[] = "tokens (docs/token-files.md)";

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config,
                                                 const SampleFormat& format, uint64_t seed,
                                                 at::Device device) {
  at::manual_seed(seed);
  switch (config.kind) {
    case ModelConfig::Kind::kResNet18:
      if (!format.image.has_value()) return Unfit("resnet18", kImages, kTokens);
      return MakeResNet18(*format.image, config.sync_batchnorm, device);
    case ModelConfig::Kind::kMlp:
      if (!format.image.has_value()) return Unfit("mlp", kImages, kTokens);
      return MakeMlp(*format.image, config.hidden, device);
    case ModelConfig::Kind::kLlama:
      if (!format.sequence_length.has_value()) return Unfit("llama", kTokens, kImages);
      return MakeLlama(config.llama, *format.sequence_length, device);
    case ModelConfig::Kind::kCompiled:
      return LoadCompiled(config.compiled_file, format, device);
    case ModelConfig::Kind::kTorchScript:
      break;
  }
  return LoadTorchScript(config.torchscript_file, format, device);
}

}  // namespace paceline
