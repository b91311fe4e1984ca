#include "worker/shim/exit_record.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace paceline {
namespace {

std::string NewDir() {
  std::string dir = ::testing::TempDir() + "/exit_record_test.XXXXXX";
  EXPECT_NE(::mkdtemp(dir.data()), nullptr);
  return dir;
}

TEST(ExitRecordTest, ReadsWhatWasWritten) {
  const std::string dir = NewDir();
  ExitRecord record;
  record.signal = 9;
  record.out_of_memory = true;
  record.end_ns = 123;
  record.start_error = "two\nlines = one";
  record.is_input_error = true;
  ASSERT_TRUE(WriteExitRecord(dir, record).ok());
  const auto read = ReadExitRecord(dir);
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ((*read)->exit_code, 0);
  EXPECT_EQ((*read)->signal, 9);
  EXPECT_TRUE((*read)->out_of_memory);
  EXPECT_EQ((*read)->end_ns, 123);
  EXPECT_EQ((*read)->start_error, "two lines = one");
  EXPECT_TRUE((*read)->is_input_error);
}

TEST(ExitRecordTest, NoFileIsNoRecord) {
  const auto read = ReadExitRecord(NewDir());
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->has_value());
}

TEST(ExitRecordTest, DamagedFileIsDataLoss) {
  const std::string dir = NewDir();
  for (const char* text : {"", "exit_code=1\n", "exit_code=x\nend=1\n"}) {
    std::ofstream(dir + "/exit", std::ios::trunc) << text;
    EXPECT_EQ(ReadExitRecord(dir).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace paceline
