#include "worker/trainer/checkpoint/output_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

TEST(OutputDirectoryTest, IsMadeAndLeftEmpty) {
  const std::string named = ::testing::TempDir() + "/output";
  const std::string directory = named + "/job-1";
  ASSERT_TRUE(PrepareOutputDirectory("checkpoint.directory", named, directory, 3).ok());
  ASSERT_TRUE(PrepareOutputDirectory("checkpoint.directory", named + "/", directory, 3).ok());
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST(OutputDirectoryTest, WhatIsAboveTheOneThatIsNamedIsNotMade) {
  const std::string missing = ::testing::TempDir() + "/not-mounted";
  const std::string named = missing + "/checkpoints/";
  const absl::Status status =
      PrepareOutputDirectory("checkpoint.directory", named, named + "job-1", 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("checkpoint.directory: " + missing +
                                   ", in which checkpoints would be made, is not there"));
  EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST(OutputDirectoryTest, OneThatCannotBeWrittenNamesTheKeyAndThePath) {
  const std::string file = ::testing::TempDir() + "/plain";
  std::ofstream(file) << "x";
  for (const std::string& directory : {file + "/out", std::string("/proc/nope")}) {
    const absl::Status status =
        PrepareOutputDirectory("checkpoint.directory", directory, directory, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("checkpoint.directory"));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(directory));
  }
}

}  // namespace
}  // namespace paceline
