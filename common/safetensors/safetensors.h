// Tensors in a file that is mapped, never unpickled: the safetensors format.
//
// A file is a length (8 bytes, little-endian), a JSON object of that length which gives each
// tensor's dtype, shape and place, and the tensors' bytes. Everything is checked when a file
// is opened, so that reading a tensor later cannot fail.
#ifndef COMMON_SAFETENSORS_SAFETENSORS_H_
#define COMMON_SAFETENSORS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {

struct Safetensor {
  std::string name;
  std::string dtype;           // "F32", "I64", ...
  std::vector<int64_t> shape;  // Empty for a scalar.
  absl::string_view bytes;     // Row-major, little-endian; borrowed.
};

// Bytes of one element; 0 for a dtype that is not known.
int64_t SafetensorsElementBytes(absl::string_view dtype);

// The beginning of a file: all that comes before the bytes of `tensors`, which follow in this
// order and are not looked at here. Padded, so that they begin at a multiple of `alignment`.
// InvalidArgument when a name comes twice or is not UTF-8, or a dtype or shape is impossible.
// Requires: alignment >= 1.
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<Safetensor>& tensors,
                                              size_t alignment);

// Writes the file atomically, tensors whose bytes are multiples of 64 first, then those of 32, 16
// and so on, so that a mapped file holds each aligned for its elements, and most for cache lines.
// Errors as WriteFileAtomically; InvalidArgument when bytes do not fit dtype and shape, or as
// SafetensorsHeader.
absl::Status WriteSafetensors(const std::string& path, const std::vector<Safetensor>& tensors);

// A mapped file. Thread-safe: it never changes.
class SafetensorsFile {
 public:
  // NotFound when there is none; DataLoss, with the tensor's name or the offset, when it is not
  // a safetensors file or contradicts itself.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // In the order of their bytes. Valid as long as this.
  const std::vector<Safetensor>& tensors() const { return tensors_; }

 private:
  SafetensorsFile(MappedFile file, std::vector<Safetensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  std::vector<Safetensor> tensors_;
};

// The tensors of a file with these contents, as views of it; only the header is read. DataLoss as
// for Open. Never allocates more than a small multiple of the header.
absl::StatusOr<std::vector<Safetensor>> ParseSafetensors(absl::string_view contents);

}  // namespace paceline

#endif  // COMMON_SAFETENSORS_SAFETENSORS_H_
