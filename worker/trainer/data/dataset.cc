#include "worker/trainer/data/dataset.h"

#include <fstream>
#include <utility>

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

}  // namespace

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
