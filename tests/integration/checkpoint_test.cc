// Checkpoints of real jobs: made, kept, and resumed from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_files.h"
#include "common/core/checkpoint_key.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/checkpoint_job.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointTest : public CheckpointJobTest {
 protected:
  std::vector<int64_t> Steps(const std::string& id) {
    std::vector<int64_t> steps;
    for (const v1::Checkpoint& one : cluster_.ListCheckpoints(id)) steps.push_back(one.step());
    return steps;
  }

  grpc::Status Cancel(const std::string& id, bool save) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job(id);
    request.set_request_id("cancel-" + id + std::to_string(++requests_));
    request.set_save(save);
    v1::Job job;
    return v1::JobService::NewStub(cluster_.channel())->Cancel(&context, request, &job);
  }

  grpc::Status Resume(v1::ResumeJobRequest request) {
    grpc::ClientContext context;
    request.set_request_id("resume-" + std::to_string(++requests_));
    v1::Job job;
    return v1::JobService::NewStub(cluster_.channel())->Resume(&context, request, &job);
  }
  grpc::Status Resume(const std::string& id) {
    v1::ResumeJobRequest request;
    request.set_job(id);
    return Resume(request);
  }

  grpc::Status Save(const std::string& id, bool now = false, const std::string& directory = "") {
    grpc::ClientContext context;
    v1::SaveCheckpointRequest request;
    request.set_job(id);
    request.set_request_id("save-" + std::to_string(++requests_));
    request.set_now(now);
    request.set_directory(directory);
    v1::Job job;
    return v1::CheckpointService::NewStub(cluster_.channel())->Save(&context, request, &job);
  }

  void ExpectSound(const v1::Checkpoint& checkpoint) {
    const auto damages = VerifyCheckpoint(checkpoint.directory(), [](int64_t, int64_t) {});
    ASSERT_TRUE(damages.ok()) << damages.status();
    EXPECT_THAT(*damages, IsEmpty());
  }

  int requests_ = 0;
};

TEST_F(CheckpointTest, SavesByStepsAndKeepsTheNewest) {
  v1::JobSpec spec = Job(4, 60);
  spec.mutable_checkpoint()->set_every_steps(10);
  spec.mutable_checkpoint()->set_when_busy(v1::WHEN_BUSY_WAIT);
  spec.mutable_checkpoint()->set_keep_latest(2);
  spec.mutable_checkpoint()->set_keep_every(40);
  spec.mutable_checkpoint()->set_at_end(true);
  const std::string id = cluster_.Submit(spec).id();
  EXPECT_EQ(cluster_.WaitForEnd(id).state(), v1::SUCCEEDED);
  EXPECT_TRUE(Eventually([&] {
    return Steps(id) == std::vector<int64_t>{60, 50, 40};
  })) << testing::PrintToString(Steps(id));
  for (const v1::Checkpoint& one : cluster_.ListCheckpoints(id)) ExpectSound(one);
  const v1::Job job = cluster_.Get(id);
  EXPECT_EQ(job.checkpoints().committed(), 6);
  EXPECT_EQ(job.checkpoints().failed(), 0);
  int directories = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(spec.checkpoint().directory() + "/" + id)) {
    directories += entry.is_directory();
  }
  EXPECT_EQ(directories, 3) << "what is not kept is removed";
}

TEST_F(CheckpointTest, SavedOnDemandCancelledAndResumedOnFewerRanks) {
  v1::JobSpec spec = Job(4, 100000);
  v1::LadderLevel* pairs = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  pairs->set_period(2);
  pairs->set_size(2);
  v1::LadderLevel* all = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  all->set_period(16);
  all->set_size(4);
  const std::string id = cluster_.Submit(spec).id();
  cluster_.WaitForSteps(id, 5);
  ASSERT_TRUE(Save(id).ok());
  const v1::Job saved = cluster_.WaitUntil(id, [](const v1::Job& job) {
    return job.checkpoints().order().state() == v1::SaveOrderStatus::COMPLETE;
  });
  EXPECT_EQ(saved.checkpoints().newest_step() % 16, 1) << "behind a mean of all ranks";
  ASSERT_TRUE(Save(id, /*now=*/true).ok());
  cluster_.WaitUntil(id, [](const v1::Job& job) {
    return job.checkpoints().order().number() == 2 &&
           job.checkpoints().order().state() == v1::SaveOrderStatus::COMPLETE;
  });
  ASSERT_TRUE(Cancel(id, /*save=*/true).ok());
  const v1::Job cancelled = cluster_.WaitForEnd(id);
  EXPECT_EQ(cancelled.state(), v1::CANCELLED);
  EXPECT_EQ(cancelled.checkpoints().complete(), 3);
  const int64_t step = cancelled.checkpoints().newest_step();

  v1::ResumeJobRequest request;
  request.set_job(id);
  request.set_ranks(2);
  grpc::Status status = Resume(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << "the ladder is for four";
  v1::LadderLevel* level = request.add_ladder();
  level->set_period(4);
  level->set_size(2);
  request.set_steps(step + 40);
  request.set_batch_per_rank(16);
  status = Resume(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.ranks_size(), 2);
  EXPECT_EQ(ended.generation(), 2);
  EXPECT_EQ(Losses(id, 1).begin()->first, step + 1);
}

TEST_F(CheckpointTest, SigtermFromOutsideSavesAndStops) {
  const std::string id = cluster_.Submit(Job(3, 100000)).id();
  const v1::Job running = cluster_.WaitForSteps(id, 5);
  ASSERT_EQ(kill(static_cast<pid_t>(running.ranks(1).pid()), SIGTERM), 0);
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::CANCELLED);
  EXPECT_THAT(ended.reason(), AllOf(HasSubstr("rank 1"), HasSubstr("SIGTERM")));
  ASSERT_EQ(ended.checkpoints().complete(), 1);
  ExpectSound(cluster_.ListCheckpoints(id).front());
}

// Replaces the job's directory by a file, so that nobody can create anything there, even as root.
void Block(const std::string& directory) {
  std::filesystem::rename(directory, directory + ".away");
  std::ofstream(directory) << "in the way";
}

void Unblock(const std::string& directory) {
  std::filesystem::remove(directory);
  std::filesystem::rename(directory + ".away", directory);
}

TEST_F(CheckpointTest, JobWhoseLastSaveFailsHoldsItsStateAndSucceedsWhenItCan) {
  v1::JobSpec spec = Job(2, 200);
  *spec.add_chaos() = cluster_.Sleep(0.2, 0, 200);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_at_end(true);
  const std::string id = cluster_.Submit(spec).id();
  const std::string directory = spec.checkpoint().directory() + "/" + id;
  WaitForCheckpoint(id, 20);
  Block(directory);
  cluster_.Release();
  const v1::Job holds = cluster_.WaitUntil(id, [](const v1::Job& job) {
    return HasEnded(job) || job.checkpoints().last_error().find("is held") != std::string::npos;
  });
  EXPECT_EQ(holds.state(), v1::RUNNING) << holds.reason();
  EXPECT_THAT(holds.checkpoints().last_error(),
              AllOf(HasSubstr("save after step 200: rank "), HasSubstr(directory),
                    HasSubstr("the state is held since"), HasSubstr("paceline job cancel")));
  Unblock(directory);
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.checkpoints().newest_step(), 200);
  EXPECT_EQ(ended.checkpoints().last_error(), "");
  const std::vector<v1::Checkpoint> all = cluster_.ListCheckpoints(id);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().step(), 200);
  ExpectSound(all.front());
}

TEST_F(CheckpointTest, JobWhoseOwnDirectoryFailsIsSavedElsewhereWhileItTrainsAndWhileItHolds) {
  v1::JobSpec spec = Job(2, 200);
  // From the start: an order is due so many steps ahead as took a second so far.
  *spec.add_chaos() = cluster_.Sleep(0.2, 0, 200);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_keep_latest(1);
  spec.mutable_checkpoint()->set_at_end(true);
  const std::string id = cluster_.Submit(spec).id();
  const std::string own = spec.checkpoint().directory() + "/" + id;
  WaitForCheckpoint(id, 20);
  Block(own);
  const std::string spare = cluster_.directory() + "/spare";
  ASSERT_TRUE(Save(id, /*now=*/false, spare).ok());
  const auto is_saved = [](int64_t number) {
    return [number](const v1::Job& job) {
      const v1::SaveOrderStatus& order = job.checkpoints().order();
      return HasEnded(job) ||
             (order.number() == number && order.state() == v1::SaveOrderStatus::COMPLETE);
    };
  };
  const int64_t step = cluster_.WaitUntil(id, is_saved(1)).checkpoints().order().step();
  EXPECT_GT(step, 20);
  cluster_.Release();
  const v1::Job holds = cluster_.WaitUntil(id, [](const v1::Job& job) {
    return HasEnded(job) || job.checkpoints().last_error().find("is held") != std::string::npos;
  });
  ASSERT_EQ(holds.state(), v1::RUNNING) << holds.reason();
  EXPECT_THAT(holds.checkpoints().last_error(),
              HasSubstr("`paceline checkpoint save " + id + " --to DIR`"));
  ASSERT_TRUE(Save(id, /*now=*/false, spare).ok());
  cluster_.WaitUntil(id, is_saved(2));
  Unblock(own);  // It is scanned at the end.
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.checkpoints().last_error(), "");
  std::vector<std::string> elsewhere;
  for (const v1::Checkpoint& one : cluster_.ListCheckpoints(id)) {
    if (one.saved_to().empty()) continue;
    elsewhere.push_back(one.directory());
    ExpectSound(one);
  }
  EXPECT_THAT(elsewhere, ElementsAre(spare + "/" + id + "/" + CheckpointName({200, 1}),
                                     spare + "/" + id + "/" + CheckpointName({step, 1})));
  EXPECT_TRUE(std::filesystem::exists(spare + "/" + id + "/final.safetensors"));

  v1::ResumeJobRequest more;
  more.set_job(id);
  more.set_steps(220);
  const grpc::Status status = Resume(more);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Job resumed = cluster_.WaitForEnd(id);
  EXPECT_EQ(resumed.state(), v1::SUCCEEDED) << resumed.reason();
  EXPECT_EQ(resumed.restored_from(), elsewhere.front());
  EXPECT_EQ(Losses(id, 1).begin()->first, 201);
}

TEST_F(CheckpointTest, JobThatHoldsItsStateIsCancelled) {
  v1::JobSpec spec = Job(2, 200);
  *spec.add_chaos() = cluster_.Sleep(0.2, 0, 200);
  spec.mutable_checkpoint()->set_every_steps(20);
  const std::string id = cluster_.Submit(spec).id();
  WaitForCheckpoint(id, 20);
  Block(spec.checkpoint().directory() + "/" + id);
  cluster_.Release();
  const v1::Job holds = cluster_.WaitUntil(id, [](const v1::Job& job) {
    return HasEnded(job) || job.checkpoints().last_error().find("is held") != std::string::npos;
  });
  ASSERT_EQ(holds.state(), v1::RUNNING) << holds.reason();
  ASSERT_TRUE(Cancel(id, /*save=*/false).ok());
  EXPECT_EQ(cluster_.WaitForEnd(id).state(), v1::CANCELLED);
}

TEST_F(CheckpointTest, AnotherJobBeginsFromIt) {
  v1::JobSpec spec = Job(2, 20);
  spec.mutable_checkpoint()->set_every_steps(10);
  const std::string first = cluster_.Submit(spec).id();
  EXPECT_EQ(cluster_.WaitForEnd(first).state(), v1::SUCCEEDED);
  spec.set_steps(30);
  spec.set_ranks(3);
  spec.set_resume_from(first + "/10");
  const v1::Job second = cluster_.Submit(spec);
  EXPECT_THAT(second.spec().resume_from(), HasSubstr(first + "/step-000000000010.g1"));
  EXPECT_EQ(cluster_.WaitForEnd(second.id()).state(), v1::SUCCEEDED);
  EXPECT_EQ(Losses(second.id(), 2).begin()->first, 11);
  // Takes only the weights.
  spec.clear_resume_from();
  spec.set_init_from(cluster_.ListCheckpoints(first).front().directory());
  const std::string third = cluster_.Submit(spec).id();
  EXPECT_EQ(cluster_.WaitForEnd(third).state(), v1::SUCCEEDED);
  EXPECT_EQ(Losses(third, 0).begin()->first, 1);
}

TEST_F(CheckpointTest, DamageStopsTheJobUnlessToldOtherwise) {
  v1::JobSpec spec = Job(2, 100000);
  spec.mutable_checkpoint()->set_every_steps(20);
  const std::string id = cluster_.Submit(spec).id();
  WaitForCheckpoint(id, 60);
  ASSERT_TRUE(Cancel(id, /*save=*/false).ok());
  cluster_.WaitForEnd(id);
  std::vector<v1::Checkpoint> all;
  ASSERT_TRUE(Eventually([&] {
    all = cluster_.ListCheckpoints(id);
    return all.size() >= 2;
  }));
  const std::string shard = all.front().directory() + "/shard-00000-of-00002.safetensors";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-9, std::ios::end);
  file.put('\x7f');
  file.close();

  ASSERT_TRUE(Resume(id).ok());
  v1::Job ended = cluster_.WaitUntil(
      id, [](const v1::Job& job) { return job.generation() == 2 && HasEnded(job); });
  EXPECT_EQ(ended.state(), v1::FAILED);
  EXPECT_THAT(ended.reason(), AllOf(HasSubstr("shard-00000-of-00002"), HasSubstr("on_damage")));

  // The checkpoint before is chosen by hand.
  v1::ResumeJobRequest request;
  request.set_job(id);
  request.set_from(id + "/" + std::to_string(all[1].step()));
  ASSERT_TRUE(Resume(request).ok());
  cluster_.WaitUntil(
      id, [](const v1::Job& job) { return job.generation() == 3 && job.state() == v1::RUNNING; });
  ASSERT_TRUE(Cancel(id, /*save=*/false).ok());
  EXPECT_EQ(cluster_.WaitForEnd(id).restored_from(), all[1].directory());
}

TEST_F(CheckpointTest, ToldSoAJobFallsBackToTheOneBefore) {
  v1::JobSpec spec = Job(2, 200);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_on_damage(v1::ON_DAMAGE_PREVIOUS);
  spec.set_max_restarts(1);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(0);
  fault->set_step(130);
  fault->set_kind(v1::SLEEP);
  fault->set_seconds(3600);
  fault->set_generation(1);
  const std::string id = cluster_.Submit(spec).id();
  const v1::Job running = WaitForCheckpoint(id, 120);
  const std::vector<v1::Checkpoint> all = cluster_.ListCheckpoints(id);
  std::filesystem::resize_file(all.front().directory() + "/shard-00001-of-00002.safetensors", 100);
  ASSERT_EQ(kill(static_cast<pid_t>(running.ranks(0).pid()), SIGKILL), 0);
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.restored_from(), all[1].directory());
  EXPECT_EQ(ended.restarts(), 1) << "the damaged one is not a failure of its own";
  EXPECT_THAT(ended.restart_reason(), HasSubstr("cannot be used"));
  EXPECT_EQ(ended.generation(), 3);
}

TEST_F(CheckpointTest, PinnedOnesStayAndOthersCanBeDeleted) {
  v1::JobSpec spec = Job(2, 100000);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.mutable_checkpoint()->set_keep_latest(2);
  const std::string id = cluster_.Submit(spec).id();
  WaitForCheckpoint(id, 20);
  const std::string first = id + "/20";
  const auto pin = [&](bool pinned) {
    grpc::ClientContext context;
    v1::PinCheckpointRequest request;
    request.set_checkpoint(first);
    request.set_request_id("pin-" + std::to_string(++requests_));
    request.set_pinned(pinned);
    v1::Checkpoint checkpoint;
    return v1::CheckpointService::NewStub(cluster_.channel())->Pin(&context, request, &checkpoint);
  };
  const auto erase = [&](const std::string& name) {
    grpc::ClientContext context;
    v1::DeleteCheckpointRequest request;
    request.set_checkpoint(name);
    request.set_request_id("delete-" + std::to_string(++requests_));
    v1::Checkpoint checkpoint;
    return v1::CheckpointService::NewStub(cluster_.channel())
        ->Delete(&context, request, &checkpoint);
  };
  ASSERT_TRUE(pin(true).ok());
  WaitForCheckpoint(id, 100);
  ASSERT_TRUE(Cancel(id, /*save=*/false).ok());
  cluster_.WaitForEnd(id);
  ASSERT_TRUE(Eventually([&] { return Steps(id).size() == 3; }));
  EXPECT_EQ(Steps(id).back(), 20);
  EXPECT_THAT(erase(first).error_message(), HasSubstr("pinned"));
  EXPECT_FALSE(erase(id).ok()) << "the newest one needs force";
  ASSERT_TRUE(pin(false).ok());
  EXPECT_TRUE(Eventually([&] { return Steps(id).size() == 2; })) << "it is not kept any more";
}

TEST_F(CheckpointTest, AFullDiskFailsSavesAndNothingElse) {
  // 1 MB holds no checkpoint of 1.6 MB.
  const std::string disk = cluster_.directory() + "/disk";
  std::filesystem::create_directories(disk);
  const std::string mount = "mount -t tmpfs -o size=1m tmpfs " + disk;
  if (RunToEnd({"/bin/sh", "-c", mount}).exit_code != 0) {
    GTEST_SKIP() << "needs the right to mount a file system";
  }
  v1::JobSpec spec = Job(1, 100000);
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 256);
  spec.mutable_model()->mutable_mlp()->add_hidden(512);
  spec.mutable_checkpoint()->set_directory(disk);
  spec.mutable_checkpoint()->set_every_steps(20);
  const std::string id = cluster_.Submit(spec).id();
  const v1::Job job =
      cluster_.WaitUntil(id, [](const v1::Job& j) { return j.checkpoints().failed() >= 3; });
  EXPECT_EQ(job.state(), v1::RUNNING);
  EXPECT_EQ(job.checkpoints().complete(), 0);
  EXPECT_THAT(job.checkpoints().last_error(), HasSubstr("No space left"));
  EXPECT_TRUE(Eventually([&] { return Steps(id).empty(); }));
  ASSERT_TRUE(Cancel(id, /*save=*/false).ok());
  cluster_.WaitForEnd(id);
  EXPECT_EQ(RunToEnd({"/bin/sh", "-c", "umount " + disk}).exit_code, 0);
}

}  // namespace
}  // namespace paceline
