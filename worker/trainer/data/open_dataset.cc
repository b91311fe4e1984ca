#include "worker/trainer/data/open_dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/core/bytes_text.h"
#include "common/core/object_url.h"
#include "common/log.h"
#include "common/mapped_file/mapped_file.h"
#include "common/mapped_file/range_source.h"
#include "worker/trainer/data/image_dataset.h"
#include "worker/trainer/data/token_dataset.h"
#include "worker/trainer/object_store/object_store.h"

namespace paceline {
namespace {

using Type = DataConfig::TokenType;

absl::Status Invalid(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", what));
}

// A store that does not answer is no error of the job's, nor is too little memory, nor an
// interrupt.
absl::Status Failed(absl::string_view key, const absl::Status& status) {
  if (!absl::IsDeadlineExceeded(status) && !absl::IsResourceExhausted(status) &&
      !absl::IsCancelled(status)) {
    return Invalid(key, status.message());
  }
  return absl::Status(status.code(), absl::StrCat(key, ": ", status.message()));
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

// `file`: the path, or the source of an object.
template <typename File>
absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(absl::string_view key, const std::string& path,
                                                    const File& file, const DataConfig& config) {
  if (config.token_type != Type::kInHeader) {
    return Invalid(key, absl::StrCat(path,
                                     " is an image shard: data.token_type is for token files "
                                     "alone; leave it out"));
  }
  absl::StatusOr<ImageShard> shard = ImageShard::Open(file);
  if (!shard.ok()) return Failed(key, shard.status());
  return std::make_unique<ImageDataset>(*std::move(shard));
}

template <typename File>
absl::StatusOr<std::unique_ptr<Dataset>> OpenTokens(absl::string_view key, const std::string& path,
                                                    const File& from, const DataConfig& config,
                                                    bool has_header) {
  absl::StatusOr<TokenFile> file =
      has_header ? TokenFile::Open(from)
                 : TokenFile::OpenHeaderless(from, FileType(config.token_type));
  if (!file.ok()) return Failed(key, file.status());
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

// By what the file begins with.
template <typename File>
absl::StatusOr<std::unique_ptr<Dataset>> OpenByMagic(absl::string_view key, const std::string& path,
                                                     const File& file, const std::string& magic,
                                                     const DataConfig& config) {
  if (magic == kImageShardMagic) return OpenImages(key, path, file, config);
  if (magic == kTokenFileMagic) return OpenTokens(key, path, file, config, /*has_header=*/true);
  if (config.token_type == Type::kInHeader) {
    return Invalid(key, absl::StrCat(path,
                                     ": at offset 0: neither an image shard nor a token "
                                     "file (they begin with ",
                                     kImageShardMagic, " and ", kTokenFileMagic,
                                     "); if it holds tokens without a header, give "
                                     "data.token_type: uint16 or uint32"));
  }
  return OpenTokens(key, path, file, config, /*has_header=*/false);
}

ObjectStore::Options OptionsOf(const ObjectStoreConfig& config) {
  ObjectStore::Options options;
  options.allowed = config.allowed;
  options.cache_directory = config.cache_directory;
  options.cache_bytes = config.cache_bytes;
  options.seed = std::random_device()();
  return options;
}

// Says when an epoch will fetch blocks again and again. `bytes`: of this object and of those that
// were opened before it.
void WarnOfSmallCache(absl::string_view key, const RangeSource& file, uint64_t bytes,
                      const ObjectStore& store) {
  const auto room = static_cast<uint64_t>(store.cache_bytes());
  if (bytes <= room || bytes - file.size() > room) return;  // The latter: it was said before.
  PACELINE_LOG(WARNING) << "objects_exceed_cache key=" << key << " object=" << file.name()
                        << " bytes_so_far=" << bytes << " cache_bytes=" << room
                        << " reason=\"samples come in shuffled order, so most of them are fetched "
                           "with a whole block of "
                        << BytesText(static_cast<int64_t>(store.options().block_bytes))
                        << "\", use data.order: sequential, or give the worker more "
                           "--object-cache-bytes";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> DatasetOpener::OpenObject(absl::string_view key,
                                                                   const std::string& url) {
  if (store_ == nullptr) {
    ObjectStore::Options options = OptionsOf(config_.object_stores);
    options.interrupt = interrupt_;
    absl::StatusOr<std::shared_ptr<ObjectStore>> store = ObjectStore::Open(std::move(options));
    if (!store.ok()) return Failed(key, store.status());
    store_ = *std::move(store);
  }
  absl::StatusOr<std::shared_ptr<const RangeSource>> file = store_->OpenObject(url);
  if (!file.ok()) return Failed(key, file.status());
  object_bytes_ += (*file)->size();
  if (config_.shuffle) WarnOfSmallCache(key, **file, object_bytes_, *store_);
  std::string magic(std::min<uint64_t>(kTokenFileMagic.size(), (*file)->size()), '\0');
  const absl::Status read = (*file)->Read(0, magic.size(), &magic[0]);
  if (!read.ok()) return Failed(key, read);
  return OpenByMagic(key, url, *file, magic, config_);
}

absl::StatusOr<std::unique_ptr<Dataset>> DatasetOpener::Open(absl::string_view key,
                                                             const std::string& path) {
  if (IsObjectUrl(path)) return OpenObject(key, path);
  // First find out whether the file can be mapped at all.
  if (const auto file = MappedFile::Open(path, MappedFile::Access::kReadOnDemand); !file.ok()) {
    return Invalid(key, file.status().message());
  }
  return OpenByMagic(key, path, path, FirstBytes(path), config_);
}

std::optional<ObjectFigures> DatasetOpener::objects() const {
  if (store_ == nullptr) return std::nullopt;
  return store_->counters().figures();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(absl::string_view key, const std::string& path,
                                                     const DataConfig& config) {
  return DatasetOpener(config).Open(key, path);
}

}  // namespace paceline
