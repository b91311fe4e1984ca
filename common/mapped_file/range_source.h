// A file that is not on this machine, and is read in ranges of bytes.
#ifndef COMMON_MAPPED_FILE_RANGE_SOURCE_H_
#define COMMON_MAPPED_FILE_RANGE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paceline {

// Thread-safe.
class RangeSource {
 public:
  virtual ~RangeSource() = default;

  virtual const std::string& name() const = 0;  // For messages.
  virtual uint64_t size() const = 0;

  // Copies bytes to `out`; may take as long as its store does. Errors name the file. Requires: the
  // range is in the file.
  virtual absl::Status Read(uint64_t offset, size_t bytes, char* out) const = 0;

  // Begins to fetch bytes that will be read soon. False: too much is asked for already; try again
  // later.
  virtual bool Expect(uint64_t offset, size_t bytes) const = 0;
};

}  // namespace paceline

#endif  // COMMON_MAPPED_FILE_RANGE_SOURCE_H_
