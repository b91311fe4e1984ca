#include "cli/tokenize/byte_corpus.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/token_file/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class ByteCorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(root_);
    options_.directories = {root_ + "/in"};
    options_.out = root_ + "/train.bin";
    std::filesystem::create_directories(root_ + "/in/sub");
  }

  void AddFile(const std::string& path, const std::string& bytes) {
    std::ofstream(root_ + "/" + path, std::ios::binary) << bytes;
  }

  std::string Text(const std::string& path) {
    const absl::StatusOr<TokenFile> file = TokenFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->vocab_size(), 256);
    EXPECT_EQ(file->type(), TokenType::kUint16);
    std::vector<int64_t> tokens(static_cast<size_t>(file->size()));
    EXPECT_TRUE(file->Read(0, file->size(), tokens.data()).ok());
    return {tokens.begin(), tokens.end()};
  }

  std::string root_;
  ByteCorpusOptions options_;
};

TEST_F(ByteCorpusTest, FilesFollowByPathWithASeparatorBetween) {
  AddFile("in/b.py", "bee\n");
  AddFile("in/sub/a.txt", "\xc3\xbc");
  AddFile("in/a.py", "ay");
  AddFile("in/empty", "");
  std::filesystem::create_symlink(root_ + "/in/b.py", root_ + "/in/link.py");
  const auto corpus = WriteByteCorpus(options_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Text(options_.out), std::string("ay\0bee\n\0\xc3\xbc", 10));
  EXPECT_EQ(corpus->train.files, 3);
  EXPECT_EQ(corpus->train.tokens, 10);
  EXPECT_EQ(corpus->binary_files, 0);
}

TEST_F(ByteCorpusTest, PatternsChooseNamesAndDirectoriesComeInTheirOrder) {
  std::filesystem::create_directories(root_ + "/before");
  AddFile("before/z.md", "last");
  AddFile("in/a.py", "first");
  AddFile("in/a.c", "never");
  options_.directories.push_back(root_ + "/before");
  options_.include = {"*.py", "*.md"};
  ASSERT_TRUE(WriteByteCorpus(options_).ok());
  EXPECT_EQ(Text(options_.out), std::string("first\0last", 10));
}

TEST_F(ByteCorpusTest, BinaryFilesAreLeftOutAndCounted) {
  AddFile("in/text", "text");
  AddFile("in/binary", std::string("\x7f\0", 2));
  AddFile("in/late", std::string(700000, 'x') + '\0');
  const auto corpus = WriteByteCorpus(options_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->binary_files, 2);
  EXPECT_EQ(Text(options_.out), "text");
}

TEST_F(ByteCorpusTest, LargeFilesGoThroughInPieces) {
  std::string text;
  for (int i = 0; i < 200000; ++i) absl::StrAppend(&text, i, "\n");
  AddFile("in/large", text);
  ASSERT_TRUE(WriteByteCorpus(options_).ok());
  EXPECT_EQ(Text(options_.out), text);
}

TEST_F(ByteCorpusTest, TheEvaluationGetsItsShareSpreadOverTheFiles) {
  for (int i = 100; i < 200; ++i) {
    AddFile(absl::StrCat("in/", i), absl::StrCat(i, std::string(static_cast<size_t>(i), '.')));
  }
  options_.eval_share = 0.1;
  options_.eval_out = root_ + "/eval.bin";
  const auto corpus = WriteByteCorpus(options_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->eval.files, 10);
  EXPECT_EQ(corpus->train.files, 90);
  const std::string eval = Text(options_.eval_out);
  EXPECT_THAT(eval, HasSubstr("109"));
  EXPECT_THAT(eval, HasSubstr("199"));
  EXPECT_THAT(Text(options_.out), ::testing::Not(HasSubstr("109")));
}

TEST_F(ByteCorpusTest, ErrorsSayWhatIsMissingAndLeaveNothing) {
  EXPECT_THAT(std::string(WriteByteCorpus(options_).status().message()),
              HasSubstr("no text in " + root_ + "/in"));
  AddFile("in/a", "text");
  options_.include = {"*.py"};
  EXPECT_EQ(WriteByteCorpus(options_).status().code(), absl::StatusCode::kNotFound);
  options_.include.clear();
  options_.eval_share = 0.01;
  options_.eval_out = root_ + "/eval.bin";
  EXPECT_EQ(WriteByteCorpus(options_).status().code(), absl::StatusCode::kInvalidArgument);
  options_.eval_out = options_.out;
  EXPECT_EQ(WriteByteCorpus(options_).status().code(), absl::StatusCode::kInvalidArgument);
  options_.directories.push_back(root_ + "/nowhere");
  options_.eval_out.clear();
  const absl::Status status = WriteByteCorpus(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(root_ + "/nowhere"));
  EXPECT_FALSE(std::filesystem::exists(options_.out));
}

}  // namespace
}  // namespace paceline
