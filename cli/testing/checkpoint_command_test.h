// A fixture for tests of the verbs about checkpoints: a controller that knows two checkpoints of a
// job, and the files of the newer one.
#ifndef CLI_TESTING_CHECKPOINT_COMMAND_TEST_H_
#define CLI_TESTING_CHECKPOINT_COMMAND_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/testing/command_test.h"
#include "cli/testing/parsed.h"
#include "common/export/testing/checkpoint_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {

inline constexpr char kId[] = "job-0123456789ab";

class CheckpointTest : public CommandTest {
 protected:
  CheckpointTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    controller_.SetJobs({Job("")});
    controller_.SetCheckpoints({Known(kId, 120, 2), Known(kId, 60, 1)});
  }
  ~CheckpointTest() override { std::filesystem::remove_all(root_); }

  // `changes` is in protobuf's text format.
  static v1::Job Job(const std::string& changes) {
    auto job = Parsed<v1::Job>(
        "id: 'job-0123456789ab' state: RUNNING spec { name: 'small' ranks: 2 steps: 200 }");
    job.MergeFrom(Parsed<v1::Job>(changes));
    return job;
  }

  v1::Checkpoint Known(const std::string& job, int64_t step, int64_t generation) const {
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id(job);
    checkpoint.set_job_name("small");
    checkpoint.set_step(step);
    checkpoint.set_generation(generation);
    checkpoint.set_ranks(2);
    checkpoint.set_bytes(2048);
    checkpoint.set_state(v1::CHECKPOINT_COMPLETE);
    checkpoint.set_directory(stored_);
    return checkpoint;
  }

  // Writes a checkpoint of a llama, with two of its tensors, to disk.
  void Store() const {
    Manifest manifest;
    manifest.job_id = kId;
    manifest.generation = 2;
    manifest.step = 120;
    manifest.ranks = 2;
    manifest.paceline_version = "1";
    manifest.torch_version = "2";
    manifest.job_spec =
        R"({"name": "small", "model": {"llama": {"dim": "4", "heads": "2"}}, "steps": "200"})";
    WriteCheckpoint(stored_, manifest,
                    {FloatsToStore("model/model.norm.weight", {4}, {1, 2, 3, 4}),
                     FloatsToStore("model/lm_head.weight", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                     FloatsToStore("optimizer/exp_avg/model.norm.weight", {4}, {1, 2, 3, 4})});
  }

  void WatchShows(const std::vector<std::string>& changes) {
    StreamScript<v1::JobEvent> script;
    int64_t revision = 1;
    for (const std::string& change : changes) {
      v1::JobEvent& event = script.messages.emplace_back();
      event.set_type(v1::MODIFIED);
      *event.mutable_job() = Job(change);
      event.mutable_job()->set_revision(++revision);
      event.set_revision(revision);
    }
    controller_.AddWatch(std::move(script));
  }

  const std::string root_ =
      std::filesystem::path(::testing::TempDir() + "/" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())
          .lexically_normal();
  const std::string stored_ = root_ + "/step-000000000120.g2";
};

}  // namespace paceline

#endif  // CLI_TESTING_CHECKPOINT_COMMAND_TEST_H_
