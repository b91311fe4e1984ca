#include "common/job_spec/enum_name.h"

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"
#include "proto/node.pb.h"

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

TEST(EnumNameTest, ShortNameIsWithoutWhatAllNamesBeginWith) {
  EXPECT_EQ(ShortEnumName(*v1::NodeState_descriptor(), v1::NODE_READY), "READY");
  EXPECT_EQ(ShortEnumName(*v1::NodeState_descriptor(), v1::NODE_STATE_UNSPECIFIED), "UNSPECIFIED");
  EXPECT_EQ(ShortEnumName(*v1::DrainMode_descriptor(), v1::DRAIN_SWAP), "SWAP");
  EXPECT_EQ(ShortEnumName(*v1::JobState_descriptor(), v1::RUNNING), "RUNNING");
  // "KEEP" is no part of the type's name.
  EXPECT_EQ(ShortEnumName(*v1::BatchRule_descriptor(), v1::KEEP_RANK_BATCH), "KEEP_RANK_BATCH");
}

TEST(EnumNameTest, UnknownNumberIsItself) { EXPECT_EQ(EnumName(*v1::Device_descriptor(), 9), "9"); }

}  // namespace
}  // namespace paceline
