#include "common/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

std::string File(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(&bytes[0], &size, 8);
  return bytes + header + data;
}

void ExpectDamage(const std::string& contents, const std::string& text) {
  const absl::Status status = ParseSafetensors(contents).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

TEST(SafetensorsTest, ReadsBackWhatWasWritten) {
  const std::string path = testing::TempDir() + "/round_trip";
  const std::string weights(24, 'w');
  const std::string count(8, 'c');
  ASSERT_TRUE(WriteSafetensors(path, {{"b", "F32", {2, 3}, weights},
                                      {"a.count", "I64", {}, count},
                                      {"empty", "BF16", {0, 5}, ""}})
                  .ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 3u);
  const Safetensor& empty = file->tensors()[0];
  EXPECT_EQ(empty.name, "empty");
  EXPECT_EQ(empty.shape, (std::vector<int64_t>{0, 5}));
  EXPECT_TRUE(empty.bytes.empty());
  const Safetensor& a = file->tensors()[2];
  EXPECT_EQ(a.name, "a.count");
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.bytes, count);
  const Safetensor& b = file->tensors()[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.bytes, weights);
}

TEST(SafetensorsTest, EachTensorIsAlignedForItsElements) {
  const std::string path = testing::TempDir() + "/aligned";
  const std::string bytes(64, 'x');
  const absl::string_view all = bytes;
  ASSERT_TRUE(WriteSafetensors(path, {{"byte", "U8", {3}, all.substr(0, 3)},
                                      {"half", "BF16", {3}, all.substr(0, 6)},
                                      {"single", "F32", {1}, all.substr(0, 4)},
                                      {"double", "F64", {1}, all.substr(0, 8)},
                                      {"flag", "BOOL", {1}, all.substr(0, 1)},
                                      {"line", "U8", {64}, all}})
                  .ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(file->tensors()[0].name, "line");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->tensors()[0].bytes.data()) % 64, 0u);
  for (const Safetensor& tensor : file->tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) %
                  static_cast<uintptr_t>(SafetensorsElementBytes(tensor.dtype)),
              0u)
        << tensor.name;
  }
}

TEST(SafetensorsTest, MetadataIsSkipped) {
  const std::string contents = File(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy");
  const auto tensors = ParseSafetensors(contents);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 1u);
  EXPECT_EQ((*tensors)[0].bytes, "xy");
}

TEST(SafetensorsTest, MetadataIsWritten) {
  const absl::StatusOr<std::string> header =
      SafetensorsHeader({{"a", "U8", {2}, ""}}, 1, {{"k", R"({"a":[1]})"}});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->substr(8), R"({"__metadata__":{"format":"pt","k":"{\"a\":[1]}"},)"
                               R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})");
  EXPECT_EQ(ParseSafetensors(absl::StrCat(*header, "xy"))->at(0).bytes, "xy");
}

TEST(SafetensorsTest, EveryTruncationIsNoticed) {
  const std::string whole =
      File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  ASSERT_TRUE(ParseSafetensors(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) ExpectDamage(whole.substr(0, size), ":");
}

TEST(SafetensorsTest, OtherFilesAreRefused) {
  ExpectDamage("PK\x03\x04 this is a zip archive, not safetensors", "not a safetensors file");
  ExpectDamage(File("[]", ""), "JSON object");
  ExpectDamage(File("{", ""), "offset 2: no JSON in UTF-8");
  ExpectDamage(File("", ""), "JSON object");
}

TEST(SafetensorsTest, EntriesThatContradictThemselvesAreNamed) {
  ExpectDamage(File(R"({"a":7})", ""), "tensor \"a\": needs");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[2]}})", ""), "needs");
  ExpectDamage(File(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "1234"), "F31");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
               "impossible shape");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234"),
               "impossible shape");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
               "do not fit");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
               "not within");
  ExpectDamage(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "1234"),
               "not within the 4 bytes");
  ExpectDamage(
      File(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
      "do not fit");
}

TEST(SafetensorsTest, EntriesOfTheWrongKindAreNamed) {
  const std::string shape = R"("shape":[1])";
  const std::string offsets = R"("data_offsets":[0,1])";
  const std::string dtype = R"("dtype":"U8")";
  const auto expect = [](const std::string& entry, const std::string& text) {
    ExpectDamage(File("{\"a\":{" + entry + "}}", "1"), "tensor \"a\": " + text);
  };
  expect(shape + "," + offsets, "needs");
  expect(dtype + "," + offsets, "needs");
  expect(dtype + "," + shape, "needs");
  expect(R"("dtype":8,)" + shape + "," + offsets, "needs");
  expect(R"("dtype":["U8"],)" + shape + "," + offsets, "needs");
  expect(R"("shape":1,)" + dtype + "," + offsets, "needs");
  expect(R"("shape":{"0":1},)" + dtype + "," + offsets, "needs");
  expect(R"("shape":[[1]],)" + dtype + "," + offsets, "needs");
  expect(R"("shape":["1"],)" + dtype + "," + offsets, "impossible shape");
  expect(R"("shape":[9223372036854775808],)" + dtype + "," + offsets, "impossible shape");
  expect(R"("data_offsets":[0,18446744073709551616],)" + dtype + "," + shape, "impossible data");
  expect(R"("data_offsets":[0,9223372036854775807],)" + dtype + "," + shape, "its data_offsets");
  expect(R"("data_offsets":[0],)" + dtype + "," + shape, "its data_offsets");
  expect(R"("data_offsets":[0,0,1],)" + dtype + "," + shape, "its data_offsets");
  ExpectDamage(File(R"({"a":[]})", ""), "needs");
}

TEST(SafetensorsTest, HostileHeadersAreRefused) {
  ExpectDamage(File("{\"\xff\":{}}", ""), "no JSON in UTF-8");
  ExpectDamage(File("{\"a\":" + std::string(4'000'000, '['), ""), "header: tensor \"a\"");
  ExpectDamage(File("{\"a\":{\"more\":" + std::string(4'000'000, '['), ""), "deeper");
  ExpectDamage(File("{\"__metadata__\":" + std::string(4'000'000, '['), ""), "deeper");
  ExpectDamage(File(std::string("{}\0{}", 5), ""), "no JSON in UTF-8");
  std::string huge(8, '\xff');
  ExpectDamage(huge, "a header of 18446744073709551615 bytes");
  huge[7] = '\0';
  ExpectDamage(huge + std::string(100, '{'), "a header of 72057594037927935 bytes");
}

TEST(SafetensorsTest, OverlapsGapsAndLeftoversAreRefused) {
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  ExpectDamage(File("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "123"),
               "overlap");
  ExpectDamage(File("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})", "1234"),
               "gap");
  ExpectDamage(File("{" + a + "}", "123"), "no tensor owns");
  ExpectDamage(File("{" + a + "," + a + "}", "12"), "a: comes twice");
}

TEST(SafetensorsTest, WriterRefusesBytesThatDoNotFit) {
  const std::string path = testing::TempDir() + "/refused";
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(WriteSafetensors(path, {{"a", "F32", {2}, "1234"}}).code(), code);
  EXPECT_EQ(WriteSafetensors(path, {{"a", "X", {1}, "1"}}).code(), code);
  EXPECT_EQ(WriteSafetensors(path, {{"a", "U8", {1}, "1"}, {"a", "U8", {1}, "1"}}).code(), code);
}

TEST(SafetensorsTest, AHeaderIsPaddedToItsAlignment) {
  const std::vector<Safetensor> tensors = {{"a", "F32", {2}, ""}, {"b", "U8", {}, ""}};
  for (size_t alignment : {8, 64, 4096}) {
    const absl::StatusOr<std::string> header = SafetensorsHeader(tensors, alignment);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->size() % alignment, 0u);
    const std::string contents = *header + "12345678b";
    const auto parsed = ParseSafetensors(contents);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ((*parsed)[1].bytes, "b");
  }
  EXPECT_FALSE(SafetensorsHeader({{"a", "U8", {-1}, ""}}, 8).ok());
  EXPECT_FALSE(SafetensorsHeader({{"a", "U8", {-1, -1}, ""}}, 8).ok());
  EXPECT_FALSE(SafetensorsHeader({{"\xff", "U8", {1}, ""}}, 8).ok());
  EXPECT_FALSE(SafetensorsHeader({{"__metadata__", "U8", {1}, ""}}, 8).ok());
  const int64_t half = int64_t{1} << 62;
  EXPECT_TRUE(SafetensorsHeader({{"a", "U8", {half}, ""}}, 8).ok());
  EXPECT_FALSE(SafetensorsHeader({{"a", "U8", {half}, ""}, {"b", "U8", {half}, ""}}, 8).ok());
  EXPECT_FALSE(SafetensorsHeader({{"a", "U8", {1}, ""}, {"a", "U8", {1}, ""}}, 8).ok());
}

TEST(SafetensorsTest, ErrorsOfAFileNameIt) {
  const std::string path = testing::TempDir() + "/damaged";
  std::ofstream(path) << "short";
  EXPECT_TRUE(absl::StrContains(SafetensorsFile::Open(path).status().message(), path));
  EXPECT_EQ(SafetensorsFile::Open(path + "x").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
