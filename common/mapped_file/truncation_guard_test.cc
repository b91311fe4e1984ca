#include "common/mapped_file/truncation_guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/mapped_file/mapped_file.h"

namespace paceline {
namespace {

constexpr size_t kBytes = 3 * 4096;

class TruncationGuardTest : public ::testing::Test {
 protected:
  TruncationGuardTest() { std::ofstream(path_) << std::string(kBytes, 'x'); }
  ~TruncationGuardTest() override { ::unlink(path_.c_str()); }

  const std::string path_ =
      ::testing::TempDir() + "/truncation_guard_test." + std::to_string(::getpid());
};

char ByteAt(const MappedFile& file, size_t at) {
  return static_cast<const volatile char*>(file.data())[at];
}

TEST_F(TruncationGuardTest, WholeFileReadsAsItIs) {
  const MappedFile file = *MappedFile::Open(path_, MappedFile::Access::kRead);
  const TruncationGuard guard(file.data(), file.size());
  EXPECT_EQ(ByteAt(file, kBytes - 1), 'x');
  EXPECT_FALSE(guard.truncated());
}

TEST_F(TruncationGuardTest, FileThatWasCutReadsAsZeros) {
  const MappedFile file = *MappedFile::Open(path_, MappedFile::Access::kRead);
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  {
    const TruncationGuard guard(file.data(), file.size());
    EXPECT_FALSE(guard.truncated());
    EXPECT_EQ(ByteAt(file, kBytes - 1), '\0');
    EXPECT_TRUE(guard.truncated());
    EXPECT_EQ(ByteAt(file, 0), '\0');
  }
  // The range stays zero, and the next guard does not report it.
  const TruncationGuard next(file.data(), file.size());
  EXPECT_EQ(ByteAt(file, 4096), '\0');
  EXPECT_FALSE(next.truncated());
}

using TruncationGuardDeathTest = TruncationGuardTest;

TEST_F(TruncationGuardDeathTest, FaultOutsideOfAGuardEndsTheProcess) {
  const MappedFile file = *MappedFile::Open(path_, MappedFile::Access::kRead);
  const MappedFile other = *MappedFile::Open(path_, MappedFile::Access::kRead);
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_DEATH(
      {
        const TruncationGuard guard(other.data(), other.size());
        ByteAt(file, 0);
      },
      "");
}

}  // namespace
}  // namespace paceline
