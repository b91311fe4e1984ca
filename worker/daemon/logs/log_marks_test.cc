#include "worker/daemon/logs/log_marks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace paceline {
namespace {

class LogMarksTest : public ::testing::Test {
 protected:
  LogMarksTest() {
    dir_ = ::testing::TempDir() + "/log_marks_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }

  static absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

  // Writes `text` at `seconds` and adds a mark `later` seconds after.
  void Append(const std::string& text, int64_t seconds, int64_t later = 1) {
    const std::string path = dir_ + "/00000000000000000000.log";
    std::ofstream(path, std::ios::app) << text;
    const timespec times[] = {{seconds, 0}, {seconds, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    LogMarks(dir_, dir_ + "/marks").Add(At(seconds + later));
  }

  int64_t After(int64_t seconds) const {
    return LogMarks(dir_, dir_ + "/marks").OffsetAfter(At(seconds));
  }

  int64_t Lines() const {
    std::ifstream in(dir_ + "/marks");
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }

  std::string dir_;
};

TEST_F(LogMarksTest, FindsWhatWasWrittenAfterATime) {
  EXPECT_EQ(After(0), 0) << "no log yet";
  Append("one\n", 100);
  Append("two\n", 200);
  Append("three\n", 300);
  EXPECT_EQ(After(50), 0);
  EXPECT_EQ(After(150), 4);
  EXPECT_EQ(After(199), 4);
  EXPECT_EQ(After(250), 8);
  EXPECT_EQ(After(301), 14) << "nothing was written after that";
}

TEST_F(LogMarksTest, NothingIsMissingThatWasWrittenBeforeTheNextMark) {
  Append("one\n", 100);
  Append("two\n", 110, /*later=*/40);
  EXPECT_EQ(After(105), 4);
  Append("three\n", 120, /*later=*/40);
  EXPECT_EQ(After(115), 4);
}

TEST_F(LogMarksTest, BeginsWithAWholeLine) {
  Append("one\ntw", 100);
  Append("o\nthree\n", 200);
  EXPECT_EQ(After(150), 8);
}

TEST_F(LogMarksTest, LogThatDoesNotGrowGetsNoMarks) {
  Append("one\n", 100);
  Append("", 200);
  Append("", 300);
  EXPECT_EQ(Lines(), 1);
}

TEST_F(LogMarksTest, ManyMarksAreThinned) {
  const auto most = static_cast<int64_t>(LogMarks::kMostMarks);
  {
    std::ofstream out(dir_ + "/marks");
    for (int64_t i = 0; i < most; ++i) out << 1000 * (i + 1) << " " << i + 1 << "\n";
  }
  Append(std::string(5000, '\n'), 10000);
  EXPECT_EQ(Lines(), most / 2 + 1);
  EXPECT_EQ(After(101), 101);
  EXPECT_EQ(After(102), 101) << "the mark of that second was left out";
}

TEST_F(LogMarksTest, BrokenLinesAreLeftOut) {
  Append("one\ntwo\n", 100);
  std::ofstream(dir_ + "/marks", std::ios::app) << "105000 12106000 3\nx\n";
  Append("three\n", 200);
  EXPECT_EQ(After(150), 8);
}

}  // namespace
}  // namespace paceline
