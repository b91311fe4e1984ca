#include "worker/trainer/checkpoint/output_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

TEST(OutputDirectoryTest, IsMadeAndLeftEmpty) {
  const std::string directory = ::testing::TempDir() + "/output/a/b";
  ASSERT_TRUE(PrepareOutputDirectory("checkpoint.directory", directory, 3).ok());
  ASSERT_TRUE(PrepareOutputDirectory("checkpoint.directory", directory, 3).ok()) << "again";
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST(OutputDirectoryTest, OneThatCannotBeWrittenNamesTheKeyAndThePath) {
  const std::string file = ::testing::TempDir() + "/plain";
  std::ofstream(file) << "x";
  for (const std::string& directory : {file + "/out", std::string("/proc/nope")}) {
    const absl::Status status = PrepareOutputDirectory("checkpoint.directory", directory, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("checkpoint.directory"));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(directory));
  }
}

}  // namespace
}  // namespace paceline
