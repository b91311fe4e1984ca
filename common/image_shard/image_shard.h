// Labelled images of equal size in one file, which is mapped and never parsed.
//
// docs/image-shards.md describes the format. Opening checks everything in the header against the
// file, so reading an image later cannot fail, unless the file is truncated meanwhile.
#ifndef COMMON_IMAGE_SHARD_IMAGE_SHARD_H_
#define COMMON_IMAGE_SHARD_IMAGE_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/mapped_file/mapped_file.h"

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

// A mapped shard. Thread-safe: immutable.
class ImageShard {
 public:
  // NotFound when the file is missing; FailedPrecondition when a newer version wrote it;
  // DataLoss, with the offset of what is wrong, when it is not a shard or is damaged.
  static absl::StatusOr<ImageShard> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const ImageFormat& format() const { return format_; }
  // Number of images, at least 1.
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  absl::Span<const uint32_t> labels() const { return labels_; }
  // Requires: 0 <= index < size(). The result is valid as long as the shard.
  const uint8_t* image(int64_t index) const {
    return pixels_ + static_cast<uint64_t>(index) * format_.image_bytes();
  }

  // DataLoss when the file has become too short. Check this before reading on, which would crash.
  absl::Status CheckSize() const { return file_.CheckSize(); }

 private:
  explicit ImageShard(MappedFile file) : file_(std::move(file)) {}
  // Sets the other members from the mapped bytes.
  absl::Status Parse();

  MappedFile file_;
  ImageFormat format_;
  absl::Span<const uint32_t> labels_;
  const uint8_t* pixels_ = nullptr;
};

}  // namespace paceline

#endif  // COMMON_IMAGE_SHARD_IMAGE_SHARD_H_
