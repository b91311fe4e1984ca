// Tensors in a mapped file in the safetensors format; nothing is unpickled.
//
// A file has a length (8 bytes, little-endian), a JSON object of that length with each tensor's
// dtype, shape and position, and the tensors' bytes. Opening checks everything, so reading a tensor
// later cannot fail.
#ifndef COMMON_SAFETENSORS_SAFETENSORS_H_
#define COMMON_SAFETENSORS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
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
  absl::string_view bytes;     // Row-major, little-endian; not owned.
};

// Bytes per element; 0 for an unknown dtype.
int64_t SafetensorsElementBytes(absl::string_view dtype);

// Returns everything before the bytes of `tensors`, which must follow in this order and are not
// used here. Padded so that they begin at a multiple of `alignment`. `metadata` gets into the
// header's `__metadata__`: keys and texts. InvalidArgument when a name occurs twice or is not
// UTF-8, or a dtype or shape is impossible. Requires: alignment >= 1; keys that are not "format".
absl::StatusOr<std::string> SafetensorsHeader(
    const std::vector<Safetensor>& tensors, size_t alignment,
    const std::map<std::string, std::string>& metadata = {});

// Writes the file atomically. Tensors with sizes divisible by 64 come first, then by 32, 16 and so
// on, so that in a mapped file each is aligned to its elements, and most to cache lines. Errors as
// for WriteFileAtomically; InvalidArgument when bytes do not match dtype and shape, or as for
// SafetensorsHeader.
absl::Status WriteSafetensors(const std::string& path, const std::vector<Safetensor>& tensors);

// A mapped file. Thread-safe: immutable.
class SafetensorsFile {
 public:
  // NotFound when it is missing; DataLoss, with the tensor's name or the offset, when it is no
  // safetensors file or inconsistent.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // Sorted by position. Valid as long as this object.
  const std::vector<Safetensor>& tensors() const { return tensors_; }

 private:
  SafetensorsFile(MappedFile file, std::vector<Safetensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  std::vector<Safetensor> tensors_;
};

// The tensors in a file with these contents, as views of it; reads only the header. DataLoss as for
// Open. Never allocates more than a small multiple of the header.
absl::StatusOr<std::vector<Safetensor>> ParseSafetensors(absl::string_view contents);

}  // namespace paceline

#endif  // COMMON_SAFETENSORS_SAFETENSORS_H_
