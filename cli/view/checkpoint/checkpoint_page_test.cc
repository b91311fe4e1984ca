#include "cli/view/checkpoint/checkpoint_page.h"

#include <stdlib.h>
#include <time.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1200);

Manifest Stored() {
  Manifest manifest;
  manifest.paceline_version = "0.5.0";
  manifest.torch_version = "2.11.0";
  manifest.created = 1000;
  manifest.job_id = "job-0123456789ab";
  manifest.generation = 2;
  manifest.step = 120;
  manifest.ranks = 12;
  manifest.plan_epoch = 3;
  manifest.ladder = "2:2,4:12";
  manifest.data_epoch = 1;
  manifest.data_offset = 640;
  manifest.files = {{"shard-00000-of-00012.safetensors", 2048},
                    {"shard-00001-of-00012.safetensors", 1024}};
  manifest.tensors = {
      {"model/fc.weight",
       "F32",
       {3, 2},
       {{"shard-00000-of-00012.safetensors", 0, 2}, {"shard-00001-of-00012.safetensors", 2, 1}}},
      {"optimizer/exp_avg/fc.weight", "F32", {3, 2}, {}},
      {"optimizer/step", "I64", {}, {}},
      {"rank10/rng/cpu", "U8", {5056}, {}},
      {"rank2/rng/cpu", "U8", {5056}, {}},
      {"rng/cpu", "U8", {5056}, {}}};
  return manifest;
}

v1::Checkpoint Known() {
  v1::Checkpoint checkpoint;
  checkpoint.set_job_id("job-0123456789ab");
  checkpoint.set_job_name("digits");
  checkpoint.set_step(120);
  checkpoint.set_generation(2);
  checkpoint.set_ranks(12);
  checkpoint.set_bytes(3072);
  checkpoint.set_state(v1::CHECKPOINT_DAMAGED);
  checkpoint.set_reason("a shard is\nmissing");
  checkpoint.mutable_create_time()->set_seconds(1000);
  return checkpoint;
}

class CheckpointPageTest : public ::testing::Test {
 protected:
  CheckpointPageTest() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(CheckpointPageTest, OfAPathItTellsWhatTheManifestSays) {
  CheckpointFacts facts;
  facts.directory = "/srv/c/step-000000000120.g2";
  facts.manifest = Stored();
  facts.spec.emplace().set_name("digits");
  const std::string page = CheckpointPage(facts, kNow, {});
  EXPECT_THAT(page, HasSubstr("Job:        job-0123456789ab\n"
                              "Step:       120\n"
                              "Generation: 2\n"
                              "Ranks:      12\n"
                              "Saved:      1970-01-01 00:16:40 (3 min 20 s ago)\n"
                              "Size:       3.0 KiB\n"
                              "Directory:  /srv/c/step-000000000120.g2\n"
                              "Ladder:     2:2,4:12\n"
                              "Plan:       version 3\n"
                              "Data:       epoch 1, offset 640\n"
                              "Versions:   format 1, paceline 0.5.0, torch 2.11.0\n"
                              "\n"
                              "Tensors:\n"
                              "GROUP      TENSORS     SIZE\n"
                              "model            1     24 B\n"
                              "optimizer        2     32 B\n"
                              "rng              1  4.9 KiB\n"
                              "rank2            1  4.9 KiB\n"
                              "rank10           1  4.9 KiB\n"
                              "\n"
                              "Files:\n"
                              "FILE                                 SIZE\n"
                              "shard-00000-of-00012.safetensors  2.0 KiB\n"
                              "shard-00001-of-00012.safetensors  1.0 KiB\n"
                              "\n"
                              "Job file, without defaults (-o wide shows them):\n"
                              "  name: digits\n"));
}

TEST_F(CheckpointPageTest, OfANameItTellsWhatTheControllerSays) {
  CheckpointFacts facts;
  facts.directory = "/srv/c";
  facts.checkpoint = Known();
  EXPECT_EQ(CheckpointPage(facts, kNow, {}),
            "Name:       digits/120\n"
            "Job:        digits (job-0123456789ab)\n"
            "State:      DAMAGED\n"
            "Reason:     a shard is missing\n"
            "Step:       120\n"
            "Generation: 2\n"
            "Ranks:      12\n"
            "Saved:      1970-01-01 00:16:40 (3 min 20 s ago)\n"
            "Size:       3.0 KiB\n"
            "Pinned:     no\n"
            "Directory:  /srv/c\n");
  facts.manifest = Stored();
  const std::string both = CheckpointPage(facts, kNow, {});
  EXPECT_THAT(both, HasSubstr("Directory:  /srv/c\nLadder:     2:2,4:12\n"));
  EXPECT_THAT(both, Not(HasSubstr("Job file")));
}

TEST_F(CheckpointPageTest, TensorsAreListedWithTheirFiles) {
  EXPECT_THAT(TensorTable(Stored(), {}),
              HasSubstr("model/fc.weight              F32    [3, 2]     24 B  "
                        "shard-00000-of-00012.safetensors, shard-00001-of-00012.safetensors\n"));
}

}  // namespace
}  // namespace paceline
