#include "common/token_file/token_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "common/tls/key_and_request.h"
#include "common/token_file/token_file_writer.h"

namespace paceline {
namespace {

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

absl::Status Write(const std::string& path, TokenType type, int64_t vocab_size,
                   const std::vector<uint32_t>& tokens) {
  absl::StatusOr<TokenFileWriter> writer = TokenFileWriter::Create(path, type, vocab_size);
  if (!writer.ok()) return writer.status();
  const absl::Status status = writer->Append(tokens);
  return status.ok() ? writer->Finish() : status;
}

std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A file with the tokens 7, 0 and 299 of a vocabulary of 300.
std::string Contents() {
  EXPECT_TRUE(Write(Path("contents"), TokenType::kUint16, 300, {7, 0, 299}).ok());
  return FileBytes(Path("contents"));
}

absl::StatusOr<TokenFile> OpenBytes(const std::string& bytes) {
  std::ofstream(Path("bytes"), std::ios::binary) << bytes;
  return TokenFile::Open(Path("bytes"));
}

template <typename T>
std::string ContentsWith(size_t offset, T value) {
  std::string bytes = Contents();
  std::memcpy(&bytes[offset], &value, sizeof(value));
  return bytes;
}

void ExpectDamage(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), Path("bytes"))) << status;
}

template <typename T>
void ExpectDamageWith(size_t offset, T value, const std::string& text) {
  ExpectDamage(OpenBytes(ContentsWith(offset, value)).status(), text);
}

TEST(TokenFileTest, ReadsBackWhatWasWritten) {
  std::vector<uint32_t> tokens(700000);  // More than the writer buffers.
  std::iota(tokens.begin(), tokens.end(), 0);
  for (TokenType type : {TokenType::kUint16, TokenType::kUint32}) {
    if (type == TokenType::kUint16) {
      for (uint32_t& token : tokens) token %= 65536;
    } else {
      std::iota(tokens.begin(), tokens.end(), 4294267295u);
    }
    ASSERT_TRUE(Write(Path("long"), type, MaxVocabSize(type), tokens).ok());
    const absl::StatusOr<TokenFile> file = TokenFile::Open(Path("long"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->type(), type);
    EXPECT_EQ(file->size(), 700000);
    EXPECT_EQ(file->vocab_size(), MaxVocabSize(type));
    std::vector<int64_t> read(tokens.size());
    ASSERT_TRUE(file->Read(0, file->size(), read.data()).ok());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), tokens.begin()));
    const absl::StatusOr<int64_t> largest = file->Read(699997, 3, read.data());
    ASSERT_TRUE(largest.ok()) << largest.status();
    EXPECT_EQ(*largest, *std::max_element(tokens.end() - 3, tokens.end()));
    EXPECT_EQ(file->OffsetOf(699997), 64u + 699997u * static_cast<uint64_t>(TokenBytes(type)));
    EXPECT_EQ(read[2], tokens.back());
  }
}

TEST(TokenFileTest, LayoutIsTheDocumentedOne) {
  const std::string bytes = Contents();
  ASSERT_EQ(bytes.size(), 64u + 3 * 2);
  EXPECT_EQ(bytes.substr(0, 8), "PCLTOKEN");
  EXPECT_EQ(bytes[8], 1);
  EXPECT_EQ(bytes[12], 2);
  EXPECT_EQ(bytes[16], 3);
  EXPECT_EQ(bytes[24], 300 - 256);
  EXPECT_EQ(bytes[25], 1);
  EXPECT_EQ(bytes[32], 64);
  EXPECT_EQ(bytes.substr(64), std::string("\x07\0\0\0\x2b\x01", 6));
}

TEST(TokenFileTest, TheHashIsThatOfTheTokens) {
  const std::string bytes = Contents();
  const std::string expected = Sha256Hex(bytes.substr(64)).substr(0, 48);
  EXPECT_EQ(TokenFile::Open(Path("contents"))->hash(), expected);
  EXPECT_EQ(absl::BytesToHexString(bytes.substr(40, 24)), expected);
}

TEST(TokenFileTest, AFileFromBeforeThereWereHashesHasNone) {
  std::string bytes = Contents();
  bytes.replace(40, 24, 24, '\0');
  const absl::StatusOr<TokenFile> file = OpenBytes(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->hash(), "");
}

TEST(TokenFileTest, EveryTruncationIsNoticed) {
  const std::string bytes = Contents();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectDamage(OpenBytes(bytes.substr(0, size)).status(),
                 "at offset " + std::to_string(size) + ": truncated");
  }
  ExpectDamage(OpenBytes(bytes + "x").status(), "at offset 70: 1 bytes too many");
}

TEST(TokenFileTest, ImpossibleHeaderFieldsAreRefused) {
  ExpectDamageWith(0, 'Q', "at offset 0: not a token file");
  ExpectDamageWith(8, uint32_t{0}, "at offset 8: ");
  ExpectDamageWith(12, uint32_t{3}, "at offset 12: tokens of 3 bytes");
  ExpectDamageWith(16, uint64_t{0}, "at offset 16: no tokens");
  ExpectDamageWith(16, ~uint64_t{0}, "at offset 16: more tokens than a file can hold");
  ExpectDamageWith(16, uint64_t{4}, "at offset 70: truncated");
  ExpectDamageWith(24, uint64_t{0}, "at offset 24: ");
  ExpectDamageWith(24, uint64_t{65537}, "at offset 24: a vocabulary of 65537");
  ExpectDamageWith(32, uint64_t{72}, "at offset 32: ");
}

TEST(TokenFileTest, NewerVersionIsRefusedWithBothVersions) {
  const absl::Status status = OpenBytes(ContentsWith(8, uint32_t{2})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "version 2")) << status;
}

TEST(TokenFileTest, TokenOutsideTheVocabularyIsNamedWithItsOffset) {
  const absl::StatusOr<TokenFile> file = OpenBytes(ContentsWith(66, uint16_t{300}));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int64_t> tokens(2);
  EXPECT_TRUE(file->Read(0, 1, tokens.data()).ok());
  ExpectDamage(file->Read(0, 2, tokens.data()).status(),
               "at offset 66: token 300 is not less than the vocabulary's 300");
}

TEST(TokenFileTest, FilesWithoutAHeaderAreTokensAlone) {
  std::ofstream(Path("bytes"), std::ios::binary) << std::string("\1\0\2\0\3\0\4\0", 8);
  std::vector<int64_t> tokens(4);
  const auto narrow = TokenFile::OpenHeaderless(Path("bytes"), TokenType::kUint16);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(narrow->size(), 4);
  EXPECT_EQ(narrow->vocab_size(), 0);
  ASSERT_TRUE(narrow->Read(0, 4, tokens.data()).ok());
  EXPECT_EQ(tokens, (std::vector<int64_t>{1, 2, 3, 4}));
  const auto wide = TokenFile::OpenHeaderless(Path("bytes"), TokenType::kUint32);
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->size(), 2);
  ASSERT_TRUE(wide->Read(1, 1, tokens.data()).ok());
  EXPECT_EQ(tokens[0], 3 + (4 << 16));
  std::ofstream(Path("bytes"), std::ios::binary) << "1234567";
  ExpectDamage(TokenFile::OpenHeaderless(Path("bytes"), TokenType::kUint16).status(),
               "at offset 6: truncated: the last token has 1 of 2 bytes");
}

TEST(TokenFileTest, MissingFileIsNotFound) {
  EXPECT_EQ(TokenFile::Open(Path("missing")).status().code(), absl::StatusCode::kNotFound);
}

TEST(TokenFileTest, WriterRefusesWhatItsReaderWouldRefuse) {
  const auto code = absl::StatusCode::kInvalidArgument;
  const std::string path = Path("refused");
  EXPECT_EQ(Write(path, TokenType::kUint16, 300, {1, 300}).code(), code);
  EXPECT_EQ(Write(path, TokenType::kUint16, 65537, {1}).code(), code);
  EXPECT_EQ(Write(path, TokenType::kUint32, 0, {1}).code(), code);
  EXPECT_EQ(Write(path, TokenType::kUint16, 300, {}).code(), code);
  EXPECT_FALSE(std::ifstream(path).good());
}

}  // namespace
}  // namespace paceline
