// Labelled images of equal size in one file, which is mapped, or read in ranges, and never parsed.
//
// docs/image-shards.md describes the format. Opening checks everything in the header against the
// file, so reading an image later cannot fail, unless the file is truncated meanwhile, or is in a
// store.
#ifndef COMMON_IMAGE_SHARD_IMAGE_SHARD_H_
#define COMMON_IMAGE_SHARD_IMAGE_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/mapped_file/mapped_file.h"
#include "common/mapped_file/range_source.h"

namespace paceline {

// The first bytes of a shard.
constexpr absl::string_view kImageShardMagic = "PCLIMAGE";

// The properties that all images of a shard share.
struct ImageFormat {
  uint32_t channels = 0;
  uint32_t height = 0;   // Pixels.
  uint32_t width = 0;    // Pixels.
  uint32_t classes = 0;  // Labels are less than this.

  // Bytes of one image.
  uint64_t image_bytes() const { return uint64_t{channels} * height * width; }
};

// Writes a shard atomically. `pixels` has the images one after the other, each ordered by channel,
// row, column; there is one label per image, and at least one image. InvalidArgument describes a
// contradiction; otherwise errors of WriteFileAtomically.
absl::Status WriteImageShard(const std::string& path, const ImageFormat& format,
                             absl::Span<const uint32_t> labels, absl::Span<const uint8_t> pixels);

// Thread-safe: immutable.
class ImageShard {
 public:
  // NotFound when the file is missing; FailedPrecondition when a newer version wrote it;
  // DataLoss, with the offset of what is wrong, when it is not a shard or is damaged.
  static absl::StatusOr<ImageShard> Open(const std::string& path);

  // The same of a file that is read in ranges; its labels are read at once. Errors of the source,
  // too.
  static absl::StatusOr<ImageShard> Open(std::shared_ptr<const RangeSource> source);

  const std::string& path() const { return file_.has_value() ? file_->path() : source_->name(); }
  // Whether images are read in ranges, by ReadImage and not by image.
  bool is_remote() const { return source_ != nullptr; }
  const ImageFormat& format() const { return format_; }
  // Number of images, at least 1.
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  absl::Span<const uint32_t> labels() const { return labels_; }
  // Requires: 0 <= index < size(), and not is_remote(). The result is valid as long as the shard.
  const uint8_t* image(int64_t index) const {
    return pixels_ + static_cast<uint64_t>(index) * format_.image_bytes();
  }

  // Copies an image's bytes to `pixels`. Errors of the source. Requires: is_remote(), and
  // 0 <= index < size().
  absl::Status ReadImage(int64_t index, uint8_t* pixels) const;
  // RangeSource::Expect of an image. Requires: is_remote().
  bool Expect(int64_t index) const {
    return source_->Expect(OffsetOf(index), static_cast<size_t>(format_.image_bytes()));
  }

  // DataLoss when the file has become too short. Check this before reading on, which would crash.
  absl::Status CheckSize() const {
    return file_.has_value() ? file_->CheckSize() : absl::OkStatus();
  }

 private:
  ImageShard() = default;
  // Sets format_ and pixels_offset_, and returns the number of images, by the header at
  // `start`, of a file of `bytes`.
  absl::StatusOr<uint64_t> ParseHeader(const void* start, uint64_t bytes);
  absl::Status CheckLabels() const;
  uint64_t OffsetOf(int64_t index) const {
    return pixels_offset_ + static_cast<uint64_t>(index) * format_.image_bytes();
  }

  std::optional<MappedFile> file_;
  std::shared_ptr<const RangeSource> source_;  // In the place of file_; its caches are shared.
  ImageFormat format_;
  uint64_t pixels_offset_ = 0;
  std::vector<uint32_t> read_labels_;  // Of source_.
  absl::Span<const uint32_t> labels_;
  const uint8_t* pixels_ = nullptr;  // In the mapped file.
};

}  // namespace paceline

#endif  // COMMON_IMAGE_SHARD_IMAGE_SHARD_H_
