#include "common/job_spec/message_limits.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> FieldsBeyond(const MessageLimits& limits, const v1::JobSpec& spec) {
  std::vector<std::string> fields;
  for (const SpecProblem& problem : CheckMessageLimits(spec, limits)) {
    fields.push_back(problem.field);
  }
  return fields;
}

TEST(MessageLimitsTest, WhatIsAsLargeAsAllowedIsFine) {
  v1::JobSpec spec;
  spec.set_name("four");
  spec.mutable_placement()->add_nodes("a");
  (*spec.mutable_placement()->mutable_labels())["zone"] = "b";
  EXPECT_THAT(FieldsBeyond({4, 1, 1}, spec), IsEmpty());
  EXPECT_THAT(FieldsBeyond({3, 1, 1}, spec), ElementsAre("name", "placement.labels.key"));
  EXPECT_THAT(FieldsBeyond({4, 0, 0}, spec), ElementsAre("placement.labels", "placement.nodes"));
}

TEST(MessageLimitsTest, AFieldMayHaveALimitOfItsOwn) {
  v1::JobSpec spec;
  spec.set_name("seven77");
  spec.set_queue("seven77");
  const OwnLimit own[] = {{"paceline.v1.JobSpec.name", 7}};
  EXPECT_THAT(FieldsBeyond({4, 1, 1, own}, spec), ElementsAre("queue"));
  spec.set_name("eight888");
  EXPECT_THAT(FieldsBeyond({4, 1, 1, own}, spec), ElementsAre("name", "queue"));
  EXPECT_EQ(CheckMessageLimits(spec, {4, 1, 1, own})[0].message, "has 8 bytes; allowed are 7");
}

TEST(MessageLimitsTest, AFieldWithoutALimitHereIsNotLookedAtNorWhatIsInIt) {
  v1::JobSpec spec;
  spec.mutable_placement()->add_nodes("seven77");
  spec.mutable_placement()->add_nodes("seven77");
  spec.mutable_data()->set_train("seven77");
  const OwnLimit own[] = {{"paceline.v1.JobSpec.placement"}};
  EXPECT_THAT(FieldsBeyond({4, 1, 1, own}, spec), ElementsAre("data.train"));
}

}  // namespace
}  // namespace paceline
