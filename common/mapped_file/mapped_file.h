// A whole file mapped into memory, shared with the other processes that map it.
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
    kRead,          // With its pages already in place.
    kReadOnDemand,  // Pages come when they are touched: for files of any size.
    kReadWrite,     // With its pages already in place.
  };

  // Maps the file as long as it is now. NotFound when there is none, DataLoss when it is empty,
  // FailedPrecondition when it is no regular file, ResourceExhausted when it has more than `limit`
  // bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path, Access access,
                                         size_t limit = SIZE_MAX);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid until this object is gone, at this address even after a move.
  void* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // DataLoss, with the offset at which the file ends now, when it has become shorter since it
  // was opened: the kernel kills whoever touches what is missing (SIGBUS). Thread-safe.
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
