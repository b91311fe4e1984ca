#include "worker/trainer/object_store/object_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/object_url.h"
#include "common/core/status_macros.h"
#include "worker/trainer/object_store/object_file.h"

namespace paceline {
namespace {

constexpr size_t kMostWaiting = 64;
// What is fetched ahead must not drive out what is about to be read.
constexpr size_t kShareAhead = 8;

// Blocks that may wait to be fetched.
size_t MostWaiting(const ObjectStore::Options& options) {
  const auto blocks = static_cast<size_t>(options.cache_bytes) / options.block_bytes;
  return std::clamp(blocks / kShareAhead, size_t{1}, kMostWaiting);
}

absl::Status CheckAllowed(const ObjectStore::Options& options, const std::string& url) {
  if (IsAllowedUrl(options.allowed, url)) return absl::OkStatus();
  if (options.allowed.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(url,
                     ": this node reads no objects of stores; allow some to its worker "
                     "(--object-store)"));
  }
  return absl::PermissionDeniedError(absl::StrCat(url, ": jobs may read objects below ",
                                                  absl::StrJoin(options.allowed, ", "),
                                                  " on this node (its worker's --object-store)"));
}

}  // namespace

ObjectStore::ObjectStore(Options options, std::unique_ptr<BlockCache> cache)
    : options_(std::move(options)),
      cache_(std::move(cache)),
      http_(options_.variables("AWS_CA_BUNDLE")),
      pool_(options_.fetch_threads, MostWaiting(options_)) {}

absl::StatusOr<std::shared_ptr<ObjectStore>> ObjectStore::Open(Options options) {
  std::unique_ptr<BlockCache> cache;
  if (!options.cache_directory.empty() && options.cache_bytes > 0) {
    PACELINE_ASSIGN_OR_RETURN(
        cache, BlockCache::Open(options.cache_directory, options.cache_bytes, options.disk_space));
  }
  return std::shared_ptr<ObjectStore>(new ObjectStore(std::move(options), std::move(cache)));
}

absl::StatusOr<std::shared_ptr<const RangeSource>> ObjectStore::OpenObject(const std::string& url) {
  absl::StatusOr<ObjectUrl> parsed = ParseObjectUrl(url);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(url, " ", parsed.status().message()));
  }
  PACELINE_RETURN_IF_ERROR(CheckAllowed(options_, url));
  auto file = std::make_shared<ObjectFile>(shared_from_this(), url, *std::move(parsed));
  PACELINE_RETURN_IF_ERROR(file->Open());
  return std::shared_ptr<const RangeSource>(std::move(file));
}

}  // namespace paceline
