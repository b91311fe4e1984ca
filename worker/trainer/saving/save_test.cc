// Saves of real trainer processes: when they are made, what prevents them, and that training is not
// disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/saving_test.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using SaveTest = SavingTest;

void ExpectSound(const std::string& checkpoint) {
  const auto damages = VerifyCheckpoint(checkpoint, [](int64_t, int64_t) {});
  ASSERT_TRUE(damages.ok()) << damages.status();
  EXPECT_THAT(*damages, ElementsAre());
}

TEST_F(SaveTest, EveryCheckpointVerifies) {
  const auto daemon = RunJob(Spec(3, SaveTo("out", "every_steps: 5 when_busy: WHEN_BUSY_WAIT")));
  for (const int64_t step : {5, 10, 15, 20}) ExpectSound(Checkpoint("out", step));
  const auto files = CheckpointFiles::Open(Checkpoint("out", 10));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->manifest().step, 10);
  EXPECT_EQ(files->manifest().ranks, 3);
  EXPECT_EQ(files->manifest().data_offset, 10 * 3 * 4);
  EXPECT_THAT(files->manifest().job_spec, HasSubstr("learning_rate"));
  EXPECT_EQ(daemon->status(0).checkpoints().commits(), 4);
  EXPECT_EQ(daemon->status(2).checkpoints().saves(), 4);
}

TEST_F(SaveTest, AnOrderTakesEffectWhenAllRanksAreEqual) {
  const v1::JobSpec spec =
      Spec(4,
           "steps: 100000 log_every: 1000 strategy { hsgd { ladder { period: 2 "
           "size: 2 } ladder { period: 64 size: 4 } } } " +
               SaveTo("out"));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  const auto committed = [&](int64_t order) {
    const auto& saves = daemon->status(0).saves();
    return std::any_of(saves.begin(), saves.end(), [&](const v1::SaveStatus& save) {
      return save.order() == order && save.state() == v1::SAVE_COMMITTED;
    });
  };
  v1::SaveOrder order;
  order.set_number(1);
  daemon->SetSaveOrder(order);
  ASSERT_TRUE(daemon->Serve([&] { return committed(1); }));
  order.set_number(2);
  order.set_now(true);
  daemon->SetSaveOrder(order);
  ASSERT_TRUE(daemon->Serve([&] { return committed(2); }));
  const auto found = SettleCheckpoints(JobDirectory("out"), 0);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->front().step % 64, 1) << "the first order waits for the mean of all";
}

TEST_F(SaveTest, AnOrderThatDoesNotReachAllRanksIsGivenUpByAll) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(3, "steps: 200000 log_every: 1000 " + SaveTo("out")));
  v1::SaveOrder order;
  order.set_number(1);
  daemon->SetSaveOrder({0, 2}, order);
  const auto gave_up = [&](int rank) {
    return daemon->status(rank).saves_size() == 1 &&
           daemon->status(rank).saves(0).failure() == v1::SAVE_NOT_AGREED;
  };
  ASSERT_TRUE(daemon->Serve([&] { return gave_up(0) && gave_up(2); })) << daemon->Log(0);
  order.set_number(2);
  daemon->SetSaveOrder(order);
  ASSERT_TRUE(daemon->Serve([&] {
    const auto& saves = daemon->status(0).saves();
    return saves.size() == 2 && saves.rbegin()->state() == v1::SAVE_COMMITTED;
  })) << daemon->Log(0);
  EXPECT_EQ(daemon->status(1).saves_size(), 1) << "it never heard of the first";
}

constexpr char kSlipstream[] =
    "strategy { slipstream { mode: SLIPSTREAM_SYNC window { min_steps: 1 max_steps: 2 max_cap: 8 } "
    "} } ";

TEST_F(SaveTest, AnOrderThatNamesADirectoryIsSavedThereAndOthersAreNot) {
  for (const std::string strategy : {"", kSlipstream}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Spec(2, strategy + "steps: 1000000 log_every: 1000 " + SaveTo("out")));
    const auto step_of = [&](int64_t order) {
      const auto& saves = daemon->status(0).saves();
      for (const v1::SaveStatus& save : saves) {
        if (save.order() == order && save.state() == v1::SAVE_COMMITTED) return save.step();
      }
      return int64_t{0};
    };
    daemon->SetSaveOrder(1, directory_ + "/spare");
    ASSERT_TRUE(daemon->Serve([&] { return step_of(1) > 0; })) << daemon->Log(0);
    v1::SaveOrder order;
    order.set_number(2);
    daemon->SetSaveOrder(order);
    ASSERT_TRUE(daemon->Serve([&] { return step_of(2) > 0; })) << daemon->Log(0);
    const auto spare = SettleCheckpoints(JobDirectory("spare"), 0);
    ASSERT_TRUE(spare.ok()) << spare.status();
    ASSERT_EQ(spare->size(), 1u);
    EXPECT_EQ(spare->front().step, step_of(1));
    const auto own = SettleCheckpoints(JobDirectory("out"), 0);
    ASSERT_TRUE(own.ok()) << own.status();
    ASSERT_EQ(own->size(), 1u);
    EXPECT_EQ(own->front().step, step_of(2));
    std::filesystem::remove_all(directory_ + "/out");
    std::filesystem::remove_all(directory_ + "/spare");
  }
}

TEST_F(SaveTest, SlowWritingSkipsSavesAndLeavesTrainingAlone) {
  // 5 MB of state at 2 MB/s, and a save every 5 steps.
  const auto daemon = RunJob(Spec(1, "model { mlp { hidden: 2000 hidden: 250 } } steps: 60 " +
                                         SaveTo("out", "every_steps: 5 write_limit_mb_s: 2")));
  EXPECT_GT(daemon->status(0).checkpoints().skipped(), 0);
  EXPECT_GT(daemon->status(0).checkpoints().saves(), 0);
  EXPECT_EQ(Values(*daemon, 0, "loss").size(), 60u);
  const auto found = SettleCheckpoints(JobDirectory("out"), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(static_cast<int64_t>(found->size()), daemon->status(0).checkpoints().saves());
}

TEST_F(SaveTest, WhatMustBeSavedWaitsForABuffer) {
  v1::JobSpec spec = Spec(1,
                          "model { mlp { hidden: 2000 hidden: 250 } } steps: 600 optimizer { "
                          "learning_rate: 0.0001 } " +
                              SaveTo("out", "every_steps: 2 write_limit_mb_s: 8"));
  spec.mutable_checkpoint()->set_at_end(true);
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().skipped() > 2; }));
  v1::SaveOrder order;
  order.set_number(1);
  daemon->SetSaveOrder(order);
  bool served = false;
  ASSERT_TRUE(daemon->Serve([&] {
    for (const v1::SaveStatus& save : daemon->status(0).saves()) {
      served |= save.order() == 1 && save.state() == v1::SAVE_COMMITTED;
    }
    return served;
  }));
  EXPECT_TRUE(served);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_TRUE(CheckpointFiles::Open(Checkpoint("out", 600)).ok());
}

TEST_F(SaveTest, NothingIsOverwritten) {
  const v1::JobSpec spec = Spec(1, SaveTo("out", "every_steps: 20"));
  RunJob(spec);
  ExpectSound(Checkpoint("out", 20));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);  // The same generation again.
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << "training itself goes on";
  EXPECT_EQ(daemon->status(0).checkpoints().saves(), 0);
  ExpectSound(Checkpoint("out", 20));
}

TEST_F(SaveTest, ADirectoryThatVanishesFailsSavesNotTraining) {
  v1::JobSpec spec = Spec(1, "steps: 100000 log_every: 1000 " + SaveTo("out", "every_steps: 200"));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
  // A file replaces the directory: nothing can be created there, not even by root.
  std::filesystem::rename(JobDirectory("out"), JobDirectory("out") + ".away");
  std::ofstream(JobDirectory("out")) << "in the way";
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().failures_size() > 0; }));
  std::string errors;
  for (const v1::SaveStatus& save : daemon->status(0).saves()) errors += save.error();
  EXPECT_THAT(errors, HasSubstr(JobDirectory("out")));
  std::filesystem::remove(JobDirectory("out"));
  const int64_t saves = daemon->status(0).checkpoints().saves();
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > saves; }))
      << "it recovers";
}

// Replaces the job's directory by a file: nothing can be created there, not even by root.
void Block(const std::string& directory) {
  std::filesystem::rename(directory, directory + ".away");
  std::ofstream(directory) << "in the way";
}

void Unblock(const std::string& directory) {
  std::filesystem::remove(directory);
  std::filesystem::rename(directory + ".away", directory);
}

class HeldSaveTest : public SavingTest {
 protected:
  // A job that saves every 10 steps and does not end before Release.
  v1::JobSpec Held(const std::string& more = "") const {
    return Spec(2, absl::StrCat(more,
                                "steps: 200 allow_chaos: true chaos { rank: 0 kind: SLEEP seconds: "
                                "0.5 step: 15 steps: 1000 until_file: '",
                                directory_, "/released' } ", SaveTo("out", "every_steps: 10")));
  }
  void Release() const { std::ofstream(directory_ + "/released") << "go"; }
};

bool Holds(const FakeDaemon& daemon, int rank) {
  const auto& saves = daemon.status(rank).saves();
  return std::any_of(saves.begin(), saves.end(), [](const v1::SaveStatus& save) {
    return save.state() == v1::SAVE_WRITING && !save.error().empty();
  });
}

TEST_F(HeldSaveTest, StateThatCannotBeSavedAtTheEndIsHeldUntilItCan) {
  v1::JobSpec spec = Held();
  spec.mutable_checkpoint()->set_at_end(true);
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
  Block(JobDirectory("out"));
  Release();
  ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0) && Holds(*daemon, 1); }))
      << daemon->Log(0);
  const v1::SaveStatus held = *daemon->status(1).saves().rbegin();
  EXPECT_EQ(held.step(), 200);
  EXPECT_EQ(held.failure(), v1::SAVE_IO);
  EXPECT_THAT(held.error(), HasSubstr(JobDirectory("out")));
  EXPECT_THAT(held.error(), HasSubstr("; the state is held since "));
  EXPECT_THAT(held.error(), HasSubstr("paceline job cancel"));
  Unblock(JobDirectory("out"));
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_EQ(daemon->exit_code(1), 0) << daemon->Log(1);
  ExpectSound(Checkpoint("out", 200));
  EXPECT_TRUE(std::filesystem::exists(JobDirectory("out") + "/final.safetensors"));
  EXPECT_FALSE(Holds(*daemon, 0));
}

TEST_F(HeldSaveTest, StateThatIsHeldIsSavedElsewhereWithTheFinalWeights) {
  for (const std::string strategy : {"", kSlipstream}) {
    v1::JobSpec spec = Held(strategy);
    spec.mutable_checkpoint()->set_at_end(true);
    const auto daemon = MakeDaemon();
    daemon->Launch(spec);
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
    Block(JobDirectory("out"));
    Release();
    ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0) && Holds(*daemon, 1); }))
        << daemon->Log(0);
    EXPECT_THAT(
        daemon->status(1).saves().rbegin()->error(),
        HasSubstr(absl::StrCat("`paceline checkpoint save ", FakeDaemon::JobId(), " --to DIR`")));
    // This fails, too: a file is in the way of the directory.
    std::ofstream(directory_ + "/full") << "in the way";
    daemon->SetSaveOrder(1, directory_ + "/full");
    const auto holds_by = [&](int64_t order) {
      return Holds(*daemon, 0) && daemon->status(0).saves().rbegin()->order() == order;
    };
    ASSERT_TRUE(daemon->Serve([&] { return holds_by(1); })) << daemon->Log(0);
    daemon->SetSaveOrder(2, directory_ + "/spare");
    ASSERT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
    EXPECT_EQ(daemon->exit_code(1), 0) << daemon->Log(1);
    EXPECT_EQ(daemon->status(0).saves().rbegin()->state(), v1::SAVE_COMMITTED);
    EXPECT_EQ(daemon->status(0).saves().rbegin()->order(), 2);
    EXPECT_EQ(daemon->status(1).saves().rbegin()->order(), 2);
    ExpectSound(Checkpoint("spare", 200));
    EXPECT_TRUE(std::filesystem::exists(JobDirectory("spare") + "/final.safetensors"));
    std::filesystem::remove_all(directory_ + "/out");
    std::filesystem::remove_all(directory_ + "/spare");
    std::filesystem::remove(directory_ + "/released");
  }
}

TEST_F(HeldSaveTest, RankThatHasWrittenItsShardWritesItElsewhereToo) {
  v1::JobSpec spec = Held();
  spec.mutable_checkpoint()->set_at_end(true);
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
  // Rank 1 finds a directory in place of its part of the manifest.
  std::filesystem::create_directories(absl::StrCat(Checkpoint("out", 200), "/", PartName(1), "/x"));
  Release();
  ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 1); })) << daemon->Log(1);
  ASSERT_TRUE(daemon->Serve(
      [&] { return daemon->status(0).saves().rbegin()->state() == v1::SAVE_DURABLE; }));
  EXPECT_FALSE(Holds(*daemon, 0));
  daemon->SetSaveOrder(1, directory_ + "/spare");
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_EQ(daemon->exit_code(1), 0) << daemon->Log(1);
  ExpectSound(Checkpoint("spare", 200));
  EXPECT_TRUE(std::filesystem::exists(JobDirectory("spare") + "/final.safetensors"))
      << "they lie beside the last checkpoint";
}

TEST_F(HeldSaveTest, WeightsAloneThatAreHeldGoElsewhere) {
  for (const bool saved : {false, true}) {
    v1::JobSpec spec = Held();
    spec.mutable_checkpoint()->set_every_steps(saved ? 10 : 15);  // After the last step, or not.
    const auto daemon = MakeDaemon();
    daemon->Launch(spec);
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
    std::filesystem::create_directory(JobDirectory("out") + "/final.safetensors");
    Release();
    ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0); })) << daemon->Log(0);
    daemon->SetSaveOrder(1, directory_ + "/spare");
    ASSERT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
    EXPECT_FALSE(Holds(*daemon, 0)) << "it is told no longer";
    EXPECT_TRUE(std::filesystem::is_regular_file(JobDirectory("spare") + "/final.safetensors"));
    ExpectSound(Checkpoint(saved ? "out" : "spare", 200));
    EXPECT_FALSE(std::filesystem::exists(Checkpoint(saved ? "spare" : "out", 200)));
    std::filesystem::remove_all(directory_ + "/out");
    std::filesystem::remove_all(directory_ + "/spare");
    std::filesystem::remove(directory_ + "/released");
  }
}

TEST_F(HeldSaveTest, WhoHoldsItsStateEndsWhenToldTo) {
  v1::JobSpec spec = Held();
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
  Block(JobDirectory("out"));
  Release();
  ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0); })) << daemon->Log(0);
  for (const int rank : {0, 1}) daemon->Stop(rank);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_EQ(daemon->exit_code(1), 0) << daemon->Log(1);
}

TEST_F(HeldSaveTest, WeightsThatCannotBeWrittenAreHeldWhenTheCheckpointIsComplete) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Held());
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
  const std::string weights = JobDirectory("out") + "/final.safetensors";
  std::filesystem::create_directory(weights);
  Release();
  ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0); })) << daemon->Log(0);
  EXPECT_THAT(daemon->status(0).saves().rbegin()->error(), HasSubstr(weights));
  EXPECT_TRUE(CheckpointFiles::Open(Checkpoint("out", 200)).ok());
  EXPECT_FALSE(Holds(*daemon, 1)) << "it has written its part";
  std::filesystem::remove(weights);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_EQ(daemon->status(0).saves().rbegin()->state(), v1::SAVE_COMMITTED);
  EXPECT_TRUE(std::filesystem::is_regular_file(weights));
}

TEST_F(HeldSaveTest, WeightsOfAJobThatSavesNoCheckpointsAreHeldToo) {
  const std::string weights = directory_ + "/weights/net.rank1.safetensors";
  std::filesystem::create_directories(weights);  // It is in the way.
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Spec(2, absl::StrCat("steps: 20 export_final: '", directory_, "/weights/net.safetensors' ")));
  ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 1); })) << daemon->Log(1);
  const v1::SaveStatus held = *daemon->status(1).saves().rbegin();
  EXPECT_EQ(held.step(), 20);
  EXPECT_THAT(held.error(), HasSubstr(weights));
  EXPECT_THAT(held.error(), HasSubstr("mend the cause, or give the steps up with"));
  EXPECT_FALSE(Holds(*daemon, 0)) << "it has written its own";
  std::filesystem::remove(weights);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0) << daemon->Log(0);
  EXPECT_EQ(daemon->exit_code(1), 0) << daemon->Log(1);
  EXPECT_FALSE(Holds(*daemon, 1)) << "it is told no longer";
  EXPECT_TRUE(std::filesystem::is_regular_file(weights));
}

TEST_F(HeldSaveTest, RankThatDiesMeanwhileIsReplacedAndTheStateIsSaved) {
  for (const std::string strategy : {"", kSlipstream}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Held(absl::StrCat(strategy,
                                     "recovery { max_failures: 3 } collective_timeout_s: "
                                     "30 startup_timeout_s: 90 ")));
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().saves() > 0; }));
    Block(JobDirectory("out"));
    Release();
    ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, 0) && Holds(*daemon, 1); }))
        << daemon->Log(0);
    daemon->Signal(1, SIGKILL);
    ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(1); }));
    const int added = daemon->Add(2, 1);
    daemon->SetMembers({{0, added}});
    ASSERT_TRUE(daemon->Serve([&] { return Holds(*daemon, added); })) << daemon->Log(added);
    Unblock(JobDirectory("out"));
    for (const int trainer : {0, added}) {
      ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(trainer); })) << daemon->Log(trainer);
      EXPECT_EQ(daemon->exit_code(trainer), 0) << daemon->Log(trainer);
    }
    ExpectSound(Checkpoint("out", 200, 2));
    std::filesystem::remove_all(JobDirectory("out"));
    std::filesystem::remove(directory_ + "/released");
  }
}

TEST_F(SaveTest, OneJobAtATimeWritesToADirectory) {
  const auto first = MakeDaemon();
  first->Launch(Spec(1, "steps: 1000000 log_every: 10000 " + SaveTo("out")));
  ASSERT_TRUE(first->Serve([&] { return first->status(0).state() == v1::TRAINER_RUNNING; }));
  const auto second = MakeDaemon();
  second->Launch(Spec(1, "collective_timeout_s: 1 startup_timeout_s: 3 " + SaveTo("out")), 2);
  ASSERT_TRUE(second->Serve());
  EXPECT_EQ(second->exit_code(0), 1);
  const v1::TrainerError error = second->LastWords(0).error();
  EXPECT_EQ(error.kind(), v1::FAILURE_ERROR) << "the other may end, and this one start again";
  EXPECT_THAT(error.message(), HasSubstr("generation 1"));
  EXPECT_THAT(error.message(), HasSubstr(absl::StrCat("process ", first->status(0).pid())));
}

TEST_F(SaveTest, WhoIsAskedToEndGoesOnUntilToldTo) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(1, "steps: 1000000 log_every: 10000 " + SaveTo("out")));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).state() == v1::TRAINER_RUNNING; }));
  daemon->Signal(0, SIGTERM);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).asked_to_end(); }));
  v1::SaveOrder order;
  order.set_number(1);
  daemon->SetSaveOrder(order);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().commits() == 1; }));
  EXPECT_FALSE(daemon->ended(0));
  daemon->SayStopping(0);
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->exit_code(0), 0);
}

}  // namespace
}  // namespace paceline
