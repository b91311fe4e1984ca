// A whole file mapped into memory, shared with the other processes that map it.
//
// Thread-compatible.
#ifndef WORKER_RING_MAPPED_FILE_H_
#define WORKER_RING_MAPPED_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace paceline {

class MappedFile {
 public:
  enum class Access { kRead, kReadWrite };

  // Maps the file as long as it is now, with its pages already in place. NotFound when there
  // is none, FailedPrecondition when it is empty or no regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path, Access access);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid until this object is gone, at this address even after a move.
  void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}

  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline

#endif  // WORKER_RING_MAPPED_FILE_H_
