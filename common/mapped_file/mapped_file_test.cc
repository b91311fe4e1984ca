#include "common/mapped_file/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace paceline {
namespace {

using Access = MappedFile::Access;

std::string FileWith(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(MappedFileTest, ShowsTheBytesEvenAfterAMove) {
  for (Access access : {Access::kRead, Access::kReadOnDemand, Access::kReadWrite}) {
    absl::StatusOr<MappedFile> opened = MappedFile::Open(FileWith("bytes", "hello"), access);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const MappedFile file = *std::move(opened);
    EXPECT_EQ(std::string(static_cast<const char*>(file.data()), file.size()), "hello");
    EXPECT_TRUE(file.CheckSize().ok());
  }
}

TEST(MappedFileTest, SaysWhyThereIsNothingToMap) {
  const auto code = [](const std::string& path) {
    return MappedFile::Open(path, Access::kRead).status().code();
  };
  EXPECT_EQ(code(testing::TempDir() + "/nowhere"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(testing::TempDir()), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(FileWith("empty", "")), absl::StatusCode::kDataLoss);
}

TEST(MappedFileTest, AFileThatBecomesShorterIsNoticedWithItsEnd) {
  const std::string path = FileWith("shrinks", std::string(10000, 'x'));
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path, Access::kReadOnDemand);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(::truncate(path.c_str(), 5000), 0);
  const absl::Status status = file->CheckSize();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path + ": at offset 5000: "), absl::string_view::npos) << status;
  ASSERT_EQ(::truncate(path.c_str(), 20000), 0);
  EXPECT_TRUE(file->CheckSize().ok());
}

}  // namespace
}  // namespace paceline
