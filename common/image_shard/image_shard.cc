#include "common/image_shard/image_shard.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are little-endian");

constexpr uint32_t kVersion = 1;
constexpr uint32_t kDtypeUint8 = 1;

// The first 64 bytes of the file.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t dtype;
  uint64_t count;
  uint32_t channels;
  uint32_t height;
  uint32_t width;
  uint32_t classes;
  uint64_t labels_offset;
  uint64_t pixels_offset;
  uint64_t reserved;
};
static_assert(sizeof(Header) == 64, "the layout is the file's");

// Offsets of a shard's parts; false when a size exceeds 64 bits.
struct Layout {
  uint64_t pixels_offset;
  uint64_t file_bytes;
};
bool LayOut(uint64_t count, const ImageFormat& format, Layout* layout) {
  uint64_t image_bytes = uint64_t{format.channels} * format.height;
  uint64_t label_bytes;
  uint64_t pixel_bytes;
  if (__builtin_mul_overflow(image_bytes, uint64_t{format.width}, &image_bytes) ||
      __builtin_mul_overflow(count, uint64_t{sizeof(uint32_t)}, &label_bytes) ||
      __builtin_mul_overflow(count, image_bytes, &pixel_bytes) ||
      __builtin_add_overflow(label_bytes, uint64_t{sizeof(Header) + 7}, &label_bytes)) {
    return false;
  }
  layout->pixels_offset = label_bytes & ~uint64_t{7};
  return !__builtin_add_overflow(layout->pixels_offset, pixel_bytes, &layout->file_bytes) &&
         layout->file_bytes <= uint64_t{std::numeric_limits<int64_t>::max()};
}

absl::Status CheckFormat(const ImageFormat& format) {
  if (format.channels == 0 || format.height == 0 || format.width == 0 || format.classes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels ", format.channels, ", height ", format.height, ", width ",
                     format.width, " and classes ", format.classes, " must all be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status Damaged(const std::string& path, uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": at offset ", offset, ": ", what));
}

absl::Status CheckLength(const std::string& path, uint64_t bytes) {
  if (bytes >= sizeof(Header)) return absl::OkStatus();
  return Damaged(path, bytes,
                 absl::StrCat("truncated: the header alone needs ", sizeof(Header), " bytes"));
}

absl::string_view Bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

absl::Status WriteImageShard(const std::string& path, const ImageFormat& format,
                             absl::Span<const uint32_t> labels, absl::Span<const uint8_t> pixels) {
  PACELINE_RETURN_IF_ERROR(CheckFormat(format));
  Layout layout;
  if (!LayOut(labels.size(), format, &layout)) {
    return absl::InvalidArgumentError("the shard would be larger than a file can be");
  }
  if (labels.empty()) return absl::InvalidArgumentError("a shard needs at least one image");
  if (pixels.size() != labels.size() * format.image_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(pixels.size(), " bytes of pixels given for ",
                                                   labels.size(), " images of ",
                                                   format.image_bytes(), " bytes each"));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= format.classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("label ", labels[i], " of image ", i, " is not less than ", format.classes));
    }
  }

  Header header{};
  std::memcpy(header.magic, kImageShardMagic.data(), sizeof(header.magic));
  header.version = kVersion;
  header.dtype = kDtypeUint8;
  header.count = labels.size();
  header.channels = format.channels;
  header.height = format.height;
  header.width = format.width;
  header.classes = format.classes;
  header.labels_offset = sizeof(Header);
  header.pixels_offset = layout.pixels_offset;
  const char padding[8] = {};
  const size_t label_bytes = labels.size() * sizeof(uint32_t);
  return WriteFileAtomically(path,
                             {Bytes(&header, sizeof(header)), Bytes(labels.data(), label_bytes),
                              Bytes(padding, layout.pixels_offset - sizeof(header) - label_bytes),
                              Bytes(pixels.data(), pixels.size())});
}

absl::StatusOr<ImageShard> ImageShard::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kReadOnDemand));
  ImageShard shard;
  shard.file_ = std::move(file);
  const uint64_t bytes = shard.file_->size();
  PACELINE_RETURN_IF_ERROR(CheckLength(path, bytes));
  const auto* start = static_cast<const uint8_t*>(shard.file_->data());
  PACELINE_ASSIGN_OR_RETURN(const uint64_t count, shard.ParseHeader(start, bytes));
  shard.labels_ = {reinterpret_cast<const uint32_t*>(start + sizeof(Header)), count};
  shard.pixels_ = start + shard.pixels_offset_;
  PACELINE_RETURN_IF_ERROR(shard.CheckLabels());
  return shard;
}

absl::StatusOr<ImageShard> ImageShard::Open(std::shared_ptr<const RangeSource> source) {
  ImageShard shard;
  shard.source_ = std::move(source);
  const RangeSource& file = *shard.source_;
  PACELINE_RETURN_IF_ERROR(CheckLength(file.name(), file.size()));
  char header[sizeof(Header)];
  PACELINE_RETURN_IF_ERROR(file.Read(0, sizeof(header), header));
  PACELINE_ASSIGN_OR_RETURN(const uint64_t count, shard.ParseHeader(header, file.size()));
  shard.read_labels_.resize(count);
  PACELINE_RETURN_IF_ERROR(file.Read(sizeof(Header), count * sizeof(uint32_t),
                                     reinterpret_cast<char*>(shard.read_labels_.data())));
  shard.labels_ = shard.read_labels_;  // A move of the shard leaves them where they are.
  PACELINE_RETURN_IF_ERROR(shard.CheckLabels());
  return shard;
}

absl::Status ImageShard::ReadImage(int64_t index, uint8_t* pixels) const {
  return source_->Read(OffsetOf(index), static_cast<size_t>(format_.image_bytes()),
                       reinterpret_cast<char*>(pixels));
}

absl::StatusOr<uint64_t> ImageShard::ParseHeader(const void* start, uint64_t bytes) {
  Header header;
  std::memcpy(&header, start, sizeof(header));
  if (kImageShardMagic != absl::string_view(header.magic, sizeof(header.magic))) {
    return Damaged(path(), 0, "not an image shard (bad magic)");
  }
  if (header.version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": at offset 8: written in format version ", header.version,
                     "; this program reads up to version ", kVersion));
  }
  if (header.version != kVersion) return Damaged(path(), 8, "format version 0 does not exist");
  if (header.dtype != kDtypeUint8) {
    return Damaged(path(), 12, absl::StrCat("unknown pixel type ", header.dtype));
  }
  if (header.count == 0) return Damaged(path(), 16, "no images");
  format_ = {header.channels, header.height, header.width, header.classes};
  const absl::Status format_status = CheckFormat(format_);
  if (!format_status.ok()) return Damaged(path(), 24, format_status.message());
  Layout layout;
  if (!LayOut(header.count, format_, &layout)) {
    return Damaged(path(), 16, "the sizes are larger than a file can be");
  }
  if (header.labels_offset != sizeof(Header)) {
    return Damaged(path(), 40, absl::StrCat("labels_offset is not ", sizeof(Header)));
  }
  if (header.pixels_offset != layout.pixels_offset) {
    return Damaged(path(), 48, absl::StrCat("pixels_offset is not ", layout.pixels_offset));
  }
  if (bytes < layout.file_bytes) {
    return Damaged(path(), bytes,
                   absl::StrCat("truncated: its header announces ", layout.file_bytes, " bytes"));
  }
  if (bytes > layout.file_bytes) {
    return Damaged(path(), layout.file_bytes,
                   absl::StrCat(bytes - layout.file_bytes, " bytes too many"));
  }
  pixels_offset_ = layout.pixels_offset;
  return header.count;
}

absl::Status ImageShard::CheckLabels() const {
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i] >= format_.classes) {
      return Damaged(path(), sizeof(Header) + i * sizeof(uint32_t),
                     absl::StrCat("label ", labels_[i], " of image ", i, " is not less than ",
                                  format_.classes));
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline
