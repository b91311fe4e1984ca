#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckLimitsTest, TextsAreBounded) {
  v1::JobSpec spec = Sound();
  // A path of that length is one byte too long for the kernel.
  spec.mutable_data()->set_train("/" + std::string(kMaxSpecText - 2, 'x'));
  EXPECT_THAT(Fields(spec), IsEmpty());
  spec.mutable_data()->set_train("/" + std::string(kMaxSpecText, 'x'));
  EXPECT_THAT(Fields(spec), ElementsAre("data.train"));
  EXPECT_EQ(CheckJobSpec(spec)[0].message, "has 4097 bytes; allowed are 4096");
}

TEST(CheckLimitsTest, TextsOfListsAndLabelsAreBounded) {
  const std::string text(kMaxSpecText + 1, 'x');
  v1::JobSpec spec = Sound();
  spec.mutable_placement()->add_nodes("a");
  spec.mutable_placement()->add_nodes(text);
  spec.add_chaos()->set_node(text);
  EXPECT_THAT(Fields(spec), ::testing::UnorderedElementsAre("placement.nodes[1]", "chaos[0].node"));
  spec = Sound();
  (*spec.mutable_placement()->mutable_labels())["zone"] = text;
  EXPECT_THAT(Fields(spec), ElementsAre("placement.labels.value"));
  spec = Sound();
  (*spec.mutable_placement()->mutable_labels())[text] = "a";
  EXPECT_THAT(Fields(spec), ElementsAre("placement.labels.key"));
}

TEST(CheckLimitsTest, ListsAreBounded) {
  v1::JobSpec spec = Sound();
  for (int i = 0; i < kMaxSpecItems; ++i) spec.mutable_model()->mutable_mlp()->add_hidden(8);
  EXPECT_THAT(Fields(spec), IsEmpty());
  spec.mutable_model()->mutable_mlp()->add_hidden(8);
  EXPECT_THAT(Fields(spec), ElementsAre("model.mlp.hidden"));
}

TEST(CheckLimitsTest, LabelsAreBounded) {
  v1::JobSpec spec = Sound();
  auto& labels = *spec.mutable_placement()->mutable_labels();
  for (int i = 0; i < kMaxSpecLabels; ++i) labels[absl::StrCat("label", i)] = "x";
  EXPECT_THAT(Fields(spec), IsEmpty());
  // Asked for again: what was read by reflection is not read anew else.
  (*spec.mutable_placement()->mutable_labels())["another"] = "x";
  EXPECT_THAT(Fields(spec), ElementsAre("placement.labels"));
}

TEST(CheckLimitsTest, TheWholeIsBounded) {
  v1::JobSpec spec = Sound();
  for (int i = 0; i < 100; ++i) {
    spec.mutable_placement()->add_exclude_nodes(absl::StrCat(i, std::string(4000, 'x')));
  }
  EXPECT_THAT(Fields(spec), ElementsAre("spec"));
  EXPECT_THAT(CheckJobSpec(spec)[0].message, HasSubstr("; allowed are 262144"));
}

TEST(CheckLimitsTest, WhatIsBeyondThemIsNotLookedThrough) {
  v1::JobSpec spec = Sound();
  spec.set_name("Wrong");
  spec.mutable_data()->set_train(std::string(kMaxSpecText + 1, 'x'));
  EXPECT_THAT(Fields(spec), ElementsAre("data.train"));
}

}  // namespace
}  // namespace paceline
