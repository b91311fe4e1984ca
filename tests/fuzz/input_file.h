// A fuzzer's input as a file, in memory.
#ifndef TESTS_FUZZ_INPUT_FILE_H_
#define TESTS_FUZZ_INPUT_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/expect.h"

namespace paceline {

class InputFile {
 public:
  explicit InputFile(absl::string_view contents) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    PACELINE_EXPECT(fd_ >= 0);
    Write(contents, 0);
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

  void Write(absl::string_view bytes, size_t at) const {
    PACELINE_EXPECT(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
                    static_cast<ssize_t>(bytes.size()));
  }
  void Truncate(size_t size) const {
    PACELINE_EXPECT(::ftruncate(fd_, static_cast<off_t>(size)) == 0);
  }

 private:
  const int fd_;
};

}  // namespace paceline

#endif  // TESTS_FUZZ_INPUT_FILE_H_
