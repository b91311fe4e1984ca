#include "common/job_spec/enum_name.h"

#include "gtest/gtest.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

TEST(EnumNameTest, PrefixOfTheTypeIsLeftOut) {
  EXPECT_EQ(EnumName(*v1::WireFormat_descriptor(), v1::WIRE_FORMAT_BF16), "bf16");
  EXPECT_EQ(EnumName(*v1::LlamaPreset_descriptor(), v1::LLAMA_PRESET_160M), "160m");
  EXPECT_EQ(EnumName(*v1::NonFinite_descriptor(), v1::NON_FINITE_STOP), "stop");
}

TEST(EnumNameTest, NamesWithoutAPrefixStayWhole) {
  EXPECT_EQ(EnumName(*v1::Device_descriptor(), v1::CUDA), "cuda");
  EXPECT_EQ(EnumName(*v1::FaultKind_descriptor(), v1::OUT_OF_MEMORY), "out_of_memory");
}

TEST(EnumNameTest, UnknownNumberIsItself) { EXPECT_EQ(EnumName(*v1::Device_descriptor(), 9), "9"); }

}  // namespace
}  // namespace paceline
