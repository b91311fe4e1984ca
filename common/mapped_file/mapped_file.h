// A whole file mapped into memory and shared with other processes that map it.
//
// Thread-compatible.
#ifndef COMMON_MAPPED_FILE_MAPPED_FILE_H_
#define COMMON_MAPPED_FILE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

class MappedFile {
 public:
  enum class Access {
    kRead,          // Pages are loaded at once.
    kReadOnDemand,  // Pages are loaded when touched: for files of any size.
    kReadWrite,     // Pages are loaded at once.
  };

  // Maps the file at its current length. NotFound when it is missing, DataLoss when it is empty,
  // FailedPrecondition when it is no regular file, ResourceExhausted when it exceeds `limit` bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path, Access access,
                                         size_t limit = SIZE_MAX);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid for the life of this object, and unchanged by a move.
  void* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // DataLoss, with the file's current end, when it has become shorter since it was opened: touching
  // missing pages would kill the process (SIGBUS). Thread-safe.
  absl::Status CheckSize() const;

 private:
  MappedFile(std::string path, int fd, void* data, size_t size);

  std::string path_;
  int fd_ = -1;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline

#endif  // COMMON_MAPPED_FILE_MAPPED_FILE_H_
