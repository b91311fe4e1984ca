#include "worker/trainer/model/compiled_package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <unordered_map>
#include <utility>

namespace paceline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::unordered_map<std::string, std::string> Metadata() {
  return {{"paceline_format", "1"},
          {"paceline_torch", "2.11.0"},
          {"paceline_instructions", "avx2 fma"},
          {"paceline_inputs", "F32 8x1x2x3"},
          {"paceline_targets", "I64 8"},
          {"paceline_state", "parameter F32 4x6 fc.weight\nchanged I64 - calls\nkept BF16 4 scale"},
          {"paceline_tied", "head.weight fc.weight"},
          {"paceline_constants", "constant.train.0 F32 2"},
          {"paceline_flops", "1 2 3 4.5"},
          {"AOTI_DEVICE_KEY", "cpu"}};
}

TEST(CompiledPackageTest, ADescriptionIsRead) {
  const absl::StatusOr<CompiledPackage> package = ParseCompiledPackage(Metadata());
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(package->batch(), 8);
  EXPECT_EQ(package->torch_version, "2.11.0");
  EXPECT_THAT(package->instructions, ElementsAre("avx2", "fma"));
  ASSERT_EQ(package->state.size(), 3u);
  EXPECT_EQ(package->state[0].kind, CompiledTensor::Kind::kParameter);
  EXPECT_EQ(package->state[0].name, "fc.weight");
  EXPECT_THAT(package->state[0].form.shape, ElementsAre(4, 6));
  EXPECT_EQ(package->state[1].kind, CompiledTensor::Kind::kChanged);
  EXPECT_EQ(package->state[1].form.type, at::kLong);
  EXPECT_TRUE(package->state[1].form.shape.empty());
  EXPECT_EQ(package->state[2].kind, CompiledTensor::Kind::kKept);
  EXPECT_EQ(package->state[2].form.type, at::kBFloat16);
  ASSERT_EQ(package->tied.size(), 1u);
  EXPECT_EQ(package->tied[0].first, "fc.weight");
  ASSERT_EQ(package->constants.size(), 1u);
  EXPECT_EQ(package->constants[0].name, "constant.train.0");
  EXPECT_EQ(package->flops_per_sample.total(), 10.5);
}

TEST(CompiledPackageTest, EachPartIsNeededAndChecked) {
  for (const char* key :
       {"torch", "instructions", "inputs", "targets", "state", "tied", "constants", "flops"}) {
    auto metadata = Metadata();
    metadata.erase(std::string("paceline_") + key);
    EXPECT_THAT(std::string(ParseCompiledPackage(metadata).status().message()), HasSubstr(key));
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"inputs", "F32 -"},           {"inputs", "F32 0x3"},        {"targets", "I64 8\nI64 8"},
      {"state", "parameter F32 4"},  {"state", "some F32 4 name"}, {"state", "kept F99 4 name"},
      {"state", "kept F32 4x name"}, {"tied", "a missing"},        {"flops", "1 2 3"},
      {"flops", "1 2 3 four"},       {"constants", "c F32 -4"}};
  for (const auto& [key, value] : wrong) {
    auto metadata = Metadata();
    metadata[std::string("paceline_") + key] = value;
    EXPECT_THAT(std::string(ParseCompiledPackage(metadata).status().message()), HasSubstr(key))
        << value;
  }
  EXPECT_THAT(std::string(ParseCompiledPackage({{"AOTI_DEVICE_KEY", "cpu"}}).status().message()),
              HasSubstr("was not written by python -m paceline.export"));
  auto later = Metadata();
  later["paceline_format"] = "2";
  EXPECT_THAT(std::string(ParseCompiledPackage(later).status().message()), HasSubstr("format 2"));
}

TEST(CompiledPackageTest, CodeRunsOnlyWhereItWasCompiledFor) {
  const absl::StatusOr<CompiledPackage> package = ParseCompiledPackage(Metadata());
  ASSERT_TRUE(package.ok()) << package.status();
  constexpr char kThis[] = "processor\t: 0\nflags\t\t: fpu avx2 fma avx512f\n\n";
  EXPECT_TRUE(CheckCompiledFor(*package, "2.11.0", kThis).ok());
  EXPECT_THAT(std::string(CheckCompiledFor(*package, "2.12.0", kThis).message()),
              HasSubstr("was exported with torch 2.11.0, and this trainer has 2.12.0"));
  const absl::Status older = CheckCompiledFor(*package, "2.11.0", "flags : fpu avx2 fma4\n");
  EXPECT_EQ(older.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(older.message()), AllOf(HasSubstr("has fma,"), Not(HasSubstr("avx2"))));
  EXPECT_FALSE(CheckCompiledFor(*package, "2.11.0", "").ok());
}

TEST(CompiledPackageTest, DataHaveThePackagesForms) {
  const absl::StatusOr<CompiledPackage> package = ParseCompiledPackage(Metadata());
  ASSERT_TRUE(package.ok()) << package.status();
  SampleFormat format;
  format.image = ImageFormat{1, 2, 3, 10};
  EXPECT_TRUE(CheckCompiledData(*package, format).ok());
  format.image->width = 4;
  EXPECT_THAT(std::string(CheckCompiledData(*package, format).message()),
              AllOf(HasSubstr("Float [8, 1, 2, 3]"), HasSubstr("Float [8, 1, 2, 4]")));
  SampleFormat tokens;
  tokens.sequence_length = 16;
  EXPECT_THAT(std::string(CheckCompiledData(*package, tokens).message()),
              HasSubstr("Long [8, 16]"));
}

}  // namespace
}  // namespace paceline
