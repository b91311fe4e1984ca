#include "worker/trainer/data/dataset.h"

#include <cstddef>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/data/image_dataset.h"
#include "worker/trainer/data/token_dataset.h"

namespace paceline {
namespace {

using Type = DataConfig::TokenType;

absl::Status Invalid(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", what));
}

std::string FirstBytes(const std::string& path) {
  std::string bytes(kTokenFileMagic.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(&bytes[0], static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

TokenType FileType(Type type) {
  return type == Type::kUint16 ? TokenType::kUint16 : TokenType::kUint32;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(absl::string_view key, const std::string& path,
                                                    const DataConfig& config) {
  if (config.token_type != Type::kInHeader) {
    return Invalid(key, absl::StrCat(path,
                                     " is an image shard: data.token_type is for token files "
                                     "alone; leave it out"));
  }
  absl::StatusOr<ImageShard> shard = ImageShard::Open(path);
  if (!shard.ok()) return Invalid(key, shard.status().message());
  return std::make_unique<ImageDataset>(*std::move(shard));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTokens(absl::string_view key, const std::string& path,
                                                    const DataConfig& config, bool has_header) {
  absl::StatusOr<TokenFile> file =
      has_header ? TokenFile::Open(path)
                 : TokenFile::OpenHeaderless(path, FileType(config.token_type));
  if (!file.ok()) return Invalid(key, file.status().message());
  if (config.token_type != Type::kInHeader && file->type() != FileType(config.token_type)) {
    return Invalid(key, absl::StrCat(path, " holds ", TokenTypeName(file->type()),
                                     " tokens, as its header says, but data.token_type is ",
                                     TokenTypeName(FileType(config.token_type)),
                                     "; leave data.token_type out"));
  }
  if (file->size() <= config.sequence_length) {
    return Invalid(key, absl::StrCat(path, " has ", file->size(), " tokens; one sequence of ",
                                     config.sequence_length, " needs ", config.sequence_length + 1,
                                     " (data.sequence_length)"));
  }
  if (config.vocab_size > 0 && file->vocab_size() > config.vocab_size) {
    return Invalid(key, absl::StrCat(path, " holds tokens below ", file->vocab_size(),
                                     ", as its header says, but model.vocab_size is ",
                                     config.vocab_size, "; give at least ", file->vocab_size()));
  }
  return std::make_unique<TokenDataset>(*std::move(file), config.sequence_length,
                                        config.vocab_size);
}

// Changes the number of rows. Requires: the batch's memory has room for them.
void SetRows(int64_t samples, Batch* batch) {
  batch->samples = samples;
  for (at::Tensor* tensor : {&batch->inputs, &batch->targets}) {
    if (tensor->size(0) == samples) continue;
    std::vector<int64_t> sizes = tensor->sizes().vec();
    sizes[0] = samples;
    *tensor = tensor->as_strided(sizes, tensor->strides());
  }
}

}  // namespace

std::string FormatText(const SampleFormat& format) {
  if (!format.image.has_value()) return "tokens";
  const ImageFormat& image = *format.image;
  return absl::StrCat("images of ", image.channels, " x ", image.height, " x ", image.width, " in ",
                      image.classes, " classes");
}

absl::Status Dataset::Read(absl::Span<const int64_t> indices, Batch* batch) const {
  const auto samples = static_cast<int64_t>(indices.size());
  SetRows(samples, batch);
  const int64_t length = format().sequence_length.value_or(0);
  batch->tokens = samples * length;
  batch->workload = length > 0 ? static_cast<double>(batch->tokens) * static_cast<double>(length)
                               : static_cast<double>(samples);
  return ReadRows(indices, 0, batch);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(absl::string_view key, const std::string& path,
                                                     const DataConfig& config) {
  // First find out whether the file can be mapped at all.
  if (const auto file = MappedFile::Open(path, MappedFile::Access::kReadOnDemand); !file.ok()) {
    return Invalid(key, file.status().message());
  }
  const std::string magic = FirstBytes(path);
  if (magic == kImageShardMagic) return OpenImages(key, path, config);
  if (magic == kTokenFileMagic) return OpenTokens(key, path, config, /*has_header=*/true);
  if (config.token_type == Type::kInHeader) {
    return Invalid(key, absl::StrCat(path,
                                     ": at offset 0: neither an image shard nor a token "
                                     "file (they begin with ",
                                     kImageShardMagic, " and ", kTokenFileMagic,
                                     "); if it holds tokens without a header, give "
                                     "data.token_type: uint16 or uint32"));
  }
  return OpenTokens(key, path, config, /*has_header=*/false);
}

}  // namespace paceline
