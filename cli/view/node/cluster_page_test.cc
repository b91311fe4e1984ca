#include "cli/view/node/cluster_page.h"

#include <nlohmann/json.hpp>

#include "cli/testing/parsed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1000);

ClusterFacts Sound() {
  ClusterFacts facts;
  facts.server = "head:7450";
  facts.nodes = {
      Parsed<v1::Node>("name: 'a' state: NODE_READY slots: 4 slots_used: 2"),
      Parsed<v1::Node>("name: 'b' state: NODE_READY slots: 4 hardware { gpus: 'H' gpus: 'H' }"
                       " gpus_used: 1")};
  facts.jobs = {Parsed<v1::Job>("id: 'job-1' state: RUNNING spec { name: 'x' } ranks {} ranks {}")};
  return facts;
}

TEST(ClusterPageTest, SoundClusterIsCounted) {
  EXPECT_EQ(ClusterPage(Sound(), kNow, {}),
            "Controller: head:7450\n"
            "Nodes:      2 (2 READY)\n"
            "Slots:      2 of 8 used\n"
            "GPUs:       1 of 2 used\n"
            "Jobs:       1 (1 RUNNING)\n"
            "Ranks:      2\n"
            "Automation: active\n"
            "\nNothing needs attention.\n");
}

TEST(ClusterPageTest, WhatSomebodyShouldLookAtComesWorstFirst) {
  ClusterFacts facts = Sound();
  facts.nodes[0].set_state(v1::NODE_DRAINED);
  facts.nodes[1].set_state(v1::NODE_LOST);
  facts.automation.set_paused(true);
  facts.automation.set_owner("brake");
  facts.automation.set_reason("too many nodes are out");
  facts.jobs.push_back(
      Parsed<v1::Job>("id: 'job-2' state: QUEUED reason: 'no slots' spec { name: "
                      "'y\\033[2J' } create_time { seconds: 940 }"));
  EXPECT_THAT(
      AttentionOf(facts, kNow),
      ElementsAre("b is LOST: `paceline node describe NODE` tells why",
                  "the automation is paused by brake: too many nodes are out; `paceline automation "
                  "resume` lets it act again",
                  "y\\x1b[2J (job-2) is QUEUED for 1 min 00 s: no slots",
                  "a is DRAINED: `paceline node resume NODE` lets them take ranks again"));
}

TEST(ClusterPageTest, SavesThatFailNeedAttention) {
  ClusterFacts facts = Sound();
  facts.jobs[0].mutable_checkpoints()->set_last_error("rank 0 on a: no space left");
  EXPECT_THAT(AttentionOf(facts, kNow),
              ElementsAre("x (job-1): checkpoints cannot be saved (there is none): rank 0 on a: no "
                          "space left"));
}

TEST(ClusterPageTest, CopiesThatAreLateNeedAttention) {
  ClusterFacts facts = Sound();
  facts.jobs[0].mutable_copies()->set_trouble("copies are late");
  EXPECT_THAT(AttentionOf(facts, kNow), ElementsAre("x (job-1): copies are late"));
}

TEST(ClusterPageTest, LongListsAreCut) {
  ClusterFacts facts;
  for (int i = 0; i < 8; ++i) {
    facts.nodes.push_back(Parsed<v1::Node>("state: NODE_UNREACHABLE"));
    facts.nodes.back().set_name(std::string(1, static_cast<char>('a' + i)));
  }
  EXPECT_THAT(AttentionOf(facts, kNow)[0], HasSubstr("a, b, c, d, e and 3 more are UNREACHABLE"));
}

TEST(ClusterPageTest, JsonHasTheSame) {
  const auto json = nlohmann::json::parse(ClusterJson(Sound(), kNow));
  EXPECT_EQ(json["slots"]["total"], 8);
  EXPECT_EQ(json["nodes"]["READY"], 2);
  EXPECT_TRUE(json["attention"].empty());
}

}  // namespace
}  // namespace paceline
