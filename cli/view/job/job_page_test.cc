#include "cli/view/job/job_page.h"

#include <stdlib.h>
#include <time.h>

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Failed() {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    id: "job-0123456789ab" state: FAILED reason: "rank 1 on w0: killed by SIGKILL"
    spec { name: "digits" ranks: 2 steps: 150 model { resnet18 {} } data { train: "/t" }
           batch_per_rank: 540 }
    create_time { seconds: 1000 } start_time { seconds: 1010 } end_time { seconds: 1100 }
    generation: 1
    progress { step: 60 loss: 0.25 samples_per_s: 812 training_s: 80 }
    evaluation { step: 50 accuracy: 0.9 loss: 0.3 samples: 359 }
    ranks { rank: 0 node: "w0" pid: 71 state: TRAINER_RUNNING
            progress { step: 61 phase: COMMUNICATION phase_s: 1.5 loss: 0.25 step_s: 0.1
                       samples_per_s: 406 } }
    ranks { rank: 1 node: "w1" pid: 72 state: TRAINER_EXITED progress { step: 60 loss: 0.5 step_s: 0.1 }
            exit { failure: FAILURE_SIGNAL signal: 9 } }
    failure { rank: 1 node: "w1"
              exit { failure: FAILURE_SIGNAL signal: 9 message: "it\033[2J" step: 60
                     phase: BACKWARD phase_s: 0.1 log_tail: "step 59\nstep 60\033[H\n" } }
  )",
                                                            &job));
  return job;
}

TEST(JobPageTest, FailureNamesNodeRankSignalPhaseStepAndLog) {
  EXPECT_EQ(FailureText(Failed(), {}),
            "rank 1 on node w1 failed: killed by SIGKILL: it\\x1b[2J\n"
            "  in step 60, phase backward for 0.1 s\n"
            "  its last log lines:\n"
            "    step 59\n"
            "    step 60\\x1b[H\n");
}

TEST(JobPageTest, RankThatEvaluatesTellsHowFarItIs) {
  v1::Job job = Failed();
  v1::Progress& progress = *job.mutable_ranks(0)->mutable_progress();
  progress.set_phase(v1::EVALUATING);
  progress.set_evaluated_batches(120);
  progress.set_evaluation_batches(400);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("evaluating 120/400 batches"));
}

TEST(JobPageTest, ASpareThatRehearsesSaysSo) {
  v1::Job job = Failed();
  v1::Rank& spare = *job.add_spares();
  spare.set_state(v1::TRAINER_STARTING);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("rehearses")));
  spare.mutable_progress()->set_phase(v1::BACKWARD);
  spare.mutable_progress()->set_phase_s(90);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("rehearses backward  1 min 30 s"));
}

TEST(JobPageTest, ReplicasThatAreOnSeveralNodesAreNamed) {
  v1::Job job = Failed();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Replicas")));
  job.mutable_spec()->set_ranks(4);
  job.mutable_spec()->set_shards(2);
  job.mutable_ranks(1)->set_node("w0");
  for (const int rank : {2, 3}) {
    v1::Rank& added = *job.add_ranks();
    added.set_rank(rank);
    added.set_node(rank == 2 ? "w2" : "w1");
  }
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("2 of 2 ranks each, 1 on one node; replica 1 is on w1, w2\n"));
}

TEST(JobPageTest, PageIsAsItShouldLook) {
  setenv("TZ", "UTC", 1);
  tzset();
  v1::Job job = Failed();
  job.clear_failure();
  job.set_submitter("ann\033");
  EXPECT_EQ(JobPage(job, absl::FromUnixSeconds(1200), {}),
            "Name:       digits\n"
            "Id:         job-0123456789ab\n"
            "State:      FAILED\n"
            "Reason:     rank 1 on w0: killed by SIGKILL\n"
            "Submitter:  ann\\x1b\n"
            "Created:    1970-01-01 00:16:40 (3 min 20 s ago)\n"
            "Started:    1970-01-01 00:16:50 (3 min 10 s ago)\n"
            "Ended:      1970-01-01 00:18:20 (1 min 40 s ago)\n"
            "Ran:        1 min 30 s\n"
            "Generation: 1\n"
            "Made from:  data /t\n"
            "Progress:   step 60 of 150, loss 0.2500, 810 samples/s, 1 min 20 s of training\n"
            "Evaluation: accuracy 90.0 %, loss 0.3000 on 359 samples after step 50\n"
            "\n"
            "Ranks:\n"
            "RANK  NODE  PID  STATE    STEP  PHASE            FOR    LOSS  SAMPLES/S  EXIT\n"
            "   0  w0     71  running    61  communication  1.5 s  0.2500        406  -\n"
            "   1  w1     72  exited     60  -                  -  0.5000          -  "
            "killed by SIGKILL\n"
            "\n"
            "Job file, without defaults (-o wide shows them):\n"
            "  name: digits\n"
            "  ranks: 2\n"
            "  model:\n"
            "    kind: resnet18\n"
            "  data:\n"
            "    train: /t\n"
            "  batch_per_rank: 540\n"
            "  steps: 150\n");
  PageStyle wide;
  wide.wide = true;
  const std::string all = JobPage(job, absl::FromUnixSeconds(1200), wide);
  EXPECT_THAT(all, HasSubstr("Job file:\n"));
  EXPECT_THAT(all, HasSubstr("    sync_batchnorm: false\n"));
}

TEST(JobPageTest, CodeThatTravelsIsToldByItsSizeAndHash) {
  v1::Job job;
  job.mutable_spec()->set_name("own");
  job.mutable_spec()->add_command("true");
  job.mutable_spec()->mutable_code()->set_sha256(std::string(64, 'a'));
  job.mutable_spec()->mutable_code()->set_bytes(1536);
  job.mutable_spec()->mutable_code()->set_files(2);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("true in the folder of its code\n"));
  EXPECT_THAT(page, HasSubstr("2 files, 1.5 KiB, sha256 " + std::string(64, 'a') + "\n"));
}

TEST(JobPageTest, ASessionIsShownAsATrainingWithItsCommand) {
  v1::Job job = Failed();
  v1::JobSpec& spec = *job.mutable_spec();
  spec.clear_model();
  spec.clear_data();
  spec.add_command("python3");
  spec.add_command("train.py");
  spec.set_working_directory("/home/ann/net");
  job.mutable_plan()->set_version(1);
  job.mutable_plan()->mutable_strategy()->mutable_ddp();
  job.mutable_progress()->set_step(0);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              Not(AnyOf(HasSubstr("Strategy:"), HasSubstr("Plan:"), HasSubstr("Progress:"))));
  spec.set_session(true);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              AllOf(HasSubstr("python3 train.py in /home/ann/net\n"), HasSubstr("Strategy:"),
                    HasSubstr("Plan:"), HasSubstr("Progress:")));
  spec.mutable_checkpoint()->set_directory("/c");
  job.set_state(v1::SUCCEEDED);
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("  weights: /c/job-0123456789ab/final.safetensors\n"));
  spec.clear_checkpoint();
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("weights")))
      << "its program may keep them";
}

TEST(JobPageTest, InterpretersThatStandByAreCounted) {
  v1::Job job = Failed();
  const auto line = [&] {
    const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
    const size_t at = page.find("Standby");
    return at == std::string::npos ? "" : page.substr(at, page.find('\n', at) - at);
  };
  EXPECT_EQ(line(), "");
  job.mutable_ranks(0)->set_standby("ready");
  EXPECT_THAT(line(), EndsWith("  1 ready"));
  job.mutable_ranks(1)->set_standby("importing");
  EXPECT_THAT(line(), EndsWith("  1 importing, 1 ready"));
  for (v1::Rank& rank : *job.mutable_ranks()) rank.set_standby("none: started with -E");
  EXPECT_THAT(line(), EndsWith("  none: started with -E"));
}

TEST(JobPageTest, CollectivesThatRanksStandInHaveTheirAge) {
  v1::Job job = Failed();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Collective")));
  job.mutable_collectives()->mutable_time()->set_seconds(1188);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Collective: no rank waits in one, as of "));
  job.mutable_collectives()->add_findings("all_reduce #5: rank 0 is in it\033[2J");
  job.mutable_collectives()->add_findings("the collectives of rank 1 are not known: it is away");
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("Collective: as of "));
  EXPECT_THAT(page, HasSubstr(" (12 s ago)\n"
                              "  all_reduce #5: rank 0 is in it\\x1b[2J\n"
                              "  the collectives of rank 1 are not known: it is away\n"));
}

TEST(JobPageTest, WhatCopiesProtectIsShownWhileTheJobTrains) {
  v1::Job job = Failed();
  job.set_state(v1::RUNNING);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Protected")));
  job.mutable_copies()->set_protection("nothing yet: copies are made after each 10 steps");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("nothing yet: copies are made after each 10 steps\n"));
  job.mutable_copies()->set_protection("the state after step 40\033[2J");
  job.mutable_copies()->mutable_time()->set_seconds(1188);
  EXPECT_THAT(
      JobPage(job, absl::FromUnixSeconds(1200), {}),
      AllOf(HasSubstr("since "), HasSubstr(" (12 s ago): the state after step 40\\x1b[2J\n")));
  job.set_state(v1::FAILED);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Protected")));
}

TEST(JobPageTest, ALongReasonIsToldInFullOnce) {
  const std::string message =
      "RuntimeError: CUDA error: an illegal memory access was encountered; kernel errors may be "
      "reported at some other call, so the stack below might be wrong; set CUDA_LAUNCH_BLOCKING=1 "
      "to have each call wait for its kernel, and look again";
  v1::Job job = Failed();
  job.set_reason("rank 1 on w0: " + message);
  job.set_restarts(1);
  job.set_restart_reason("restart 1: rank 1 on w0: " + message);
  for (v1::TrainerExit* exit :
       {job.mutable_failure()->mutable_exit(), job.mutable_ranks(0)->mutable_exit(),
        job.mutable_ranks(1)->mutable_exit()}) {
    exit->set_failure(v1::FAILURE_EXIT_CODE);
    exit->clear_signal();
    exit->set_exit_code(42);
    exit->set_message(message);
  }
  job.mutable_failure()->mutable_exit()->clear_log_tail();
  job.add_membership_changes()->set_reason("rank 1 on w0: " + message);
  const auto count = [&](const PageStyle& style) {
    int times = 0;
    const std::string page = JobPage(job, absl::FromUnixSeconds(1200), style);
    for (size_t at = 0; (at = page.find("CUDA_LAUNCH", at)) != std::string::npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(count({}), 1);
  PageStyle wide;
  wide.wide = true;
  EXPECT_EQ(count(wide), 6);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("rank 1 on node w1 failed: exit code 42: RuntimeError: CUDA error"));
}

TEST(JobPageTest, ARankThatIsNotHeardOfSaysSinceWhenInsteadOfWhatItDid) {
  v1::Job job = Failed();
  job.set_state(v1::RUNNING);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1100), PageStyle()), HasSubstr("communication"));
  job.mutable_ranks(0)->mutable_last_heard()->set_seconds(1058);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1100), PageStyle());
  EXPECT_THAT(page, HasSubstr("last heard 42"));
  EXPECT_THAT(page, Not(HasSubstr("communication")));
}

TEST(JobPageTest, StrategyPlanFiguresAndProfileHaveTheirPlaces) {
  v1::Job job = Failed();
  v1::Job more;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    plan { version: 3 active_version: 2 active_since_step: 40 strategy { local_sgd { period: 8 } } }
    progress { tokens_per_s: 1000 mfu: 0.25 flops_per_s: 2e12 flops_source: FLOPS_FORMULA }
    profile { request { id: 4 } ranks: 0 }
  )",
                                                            &more));
  job.MergeFrom(more);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("Plan:       version 3 was never taken up, version 2 since step 40\n"));
  job.set_state(v1::RUNNING);
  job.mutable_ranks(0)->mutable_figures()->set_tokens_per_s(500);
  job.clear_evaluation();
  job.mutable_evaluation()->set_loss(2);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("Strategy:   local_sgd 8:all\n"));
  EXPECT_THAT(page,
              HasSubstr("Plan:       version 3 is being prepared, version 2 since step 40\n"));
  EXPECT_THAT(page, HasSubstr("1000 tokens/s, MFU 25.0 %, 1 min 20 s of training\n"));
  EXPECT_THAT(page, HasSubstr("FLOPs:      2.00 TFLOP/s of all ranks, by the model's formula\n"));
  EXPECT_THAT(page, HasSubstr("Evaluation: loss 2.0000 on"));
  EXPECT_THAT(page, HasSubstr("\nFigures:\nRANK  TOKENS/S"));
  EXPECT_THAT(page, HasSubstr("\nProfile 4:\nRANK"));
  job.mutable_ranks(0)->mutable_plan()->set_failed_version(3);
  job.mutable_ranks(0)->mutable_plan()->set_error("rendezvous: late");
  EXPECT_THAT(
      JobPage(job, absl::FromUnixSeconds(1200), {}),
      HasSubstr("version 2 since step 40; rank 0 could not prepare it: rendezvous: late\n"));
}

TEST(JobPageTest, CheckpointsStandBetweenPlanAndProgress) {
  v1::Job job = Failed();
  job.mutable_plan()->set_version(1);
  job.set_restarts(1);
  job.mutable_spec()->set_max_restarts(3);
  job.mutable_checkpoints()->set_complete(2);
  job.mutable_checkpoints()->set_newest_step(50);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("\nRestarts:   1 of 3 after failures\n"
                              "Checkpoint: step 50; 2 complete, 0 B\n"
                              "Progress:"));
}

TEST(JobPageTest, LastRestartIsToldWithItsCause) {
  v1::Job job = Failed();
  job.set_restarts(1);
  job.mutable_spec()->set_max_restarts(3);
  job.set_restart_reason("rank 1 on w0: ended by signal 9 (SIGKILL)\033");
  EXPECT_THAT(
      JobPage(job, absl::FromUnixSeconds(1200), {}),
      HasSubstr("\nRestarts:   1 of 3, last: rank 1 on w0: ended by signal 9 (SIGKILL)\\x1b\n"));
  job.mutable_spec()->set_max_restarts(0);
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), HasSubstr("\nRestarts:   1, last: "));
  job.mutable_spec()->set_max_restarts(3);
  job.set_restart_reason("restart 1 of 3: rank 1 on w0: gone");
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("\nRestarts:   1 of 3, last: rank 1 on w0: gone\n"));
}

TEST(JobPageTest, FailureBeforeTheFirstStepIsInNoStep) {
  v1::Job job = Failed();
  v1::TrainerExit* exit = job.mutable_failure()->mutable_exit();
  exit->set_failure(v1::FAILURE_RESTORE);
  exit->set_step(0);
  EXPECT_THAT(FailureText(job, {}), HasSubstr("in step 0, phase backward"));
  exit->set_phase(v1::IDLE);
  EXPECT_THAT(FailureText(job, {}), Not(HasSubstr("in step")));
}

TEST(JobPageTest, AccuracyOfStepsThatWereLostIsNotTheJobs) {
  v1::Job job = Failed();
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}), HasSubstr("accuracy 90.0 %"));
  job.mutable_progress()->set_step(49);
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("accuracy")));
}

TEST(JobPageTest, ExitCodeAndMessageAreTold) {
  v1::Job job = Failed();
  v1::TrainerExit* exit = job.mutable_failure()->mutable_exit();
  exit->set_failure(v1::FAILURE_EXIT_CODE);
  exit->set_signal(0);
  exit->set_exit_code(42);
  EXPECT_THAT(FailureText(job, {}), HasSubstr("failed: exit code 42: it"));
  exit->set_message("exited with code 42");
  EXPECT_THAT(FailureText(job, {}), HasSubstr("failed: exit code 42\n"));
}

TEST(JobPageTest, SummaryTellsStateStepsTimePaceAndAccuracy) {
  v1::Job job = Failed();
  job.set_state(v1::SUCCEEDED);
  job.mutable_progress()->set_step(150);
  job.mutable_spec()->mutable_checkpoint()->set_directory("/srv/c");
  EXPECT_EQ(SummaryText(job, absl::FromUnixSeconds(1200), {}),
            "digits (job-0123456789ab) SUCCEEDED: 150 of 150 steps in 1 min 30 s, 2025 samples/s, "
            "accuracy 90.0 %\n"
            "  weights: /srv/c/job-0123456789ab/final.safetensors\n");
  // The last step was saved elsewhere.
  v1::SaveOrderStatus& order = *job.mutable_checkpoints()->mutable_order();
  order.set_directory("/spare");
  order.set_step(150);
  order.set_state(v1::SaveOrderStatus::COMPLETE);
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}),
              HasSubstr("  weights: /spare/job-0123456789ab/final.safetensors\n"));
  order.set_step(100);
  EXPECT_THAT(SummaryText(job, absl::FromUnixSeconds(1200), {}), HasSubstr("weights: /srv/c/"));
}

TEST(JobPageTest, SummaryOfAShardedJobNamesTheCheckpointThatHasItsWeights) {
  v1::Job job = Failed();
  job.set_state(v1::SUCCEEDED);
  job.mutable_progress()->set_step(150);
  job.mutable_spec()->mutable_checkpoint()->set_directory("/srv/c");
  job.mutable_spec()->set_shards(2);
  const auto summary = [&job] { return SummaryText(job, absl::FromUnixSeconds(1200), {}); };
  EXPECT_THAT(summary(), HasSubstr("  weights: not kept: the job is sharded"));
  job.mutable_checkpoints()->set_complete(1);
  job.mutable_checkpoints()->set_newest_step(150);
  EXPECT_THAT(summary(), HasSubstr("  weights: in shards, in a checkpoint: paceline checkpoint "
                                   "export job-0123456789ab/150 --to FILE.safetensors\n"));
  job.mutable_checkpoints()->set_newest_step(100);
  EXPECT_THAT(summary(), HasSubstr("in a checkpoint (after step 100, the newest): "));
}

TEST(JobPageTest, SummaryTellsWhereTheWeightsAre) {
  v1::Job job = Failed();
  job.set_state(v1::SUCCEEDED);
  const auto summary = [&] { return SummaryText(job, absl::FromUnixSeconds(1200), {}); };
  EXPECT_THAT(summary(), HasSubstr("  weights: not kept, as the job file has neither "
                                   "checkpoint.directory nor export_final\n"));
  job.mutable_spec()->set_ranks(4);
  job.mutable_spec()->set_export_final("/srv/end.safetensors");
  EXPECT_THAT(summary(), HasSubstr("  weights: /srv/end.rank0.safetensors to .rank1.safetensors\n"))
      << "it has ended with two";
  EXPECT_THAT(summary(), Not(HasSubstr("not kept")));
  job.mutable_ranks()->RemoveLast();
  EXPECT_THAT(summary(), HasSubstr("  weights: /srv/end.rank0.safetensors\n"));
  job.set_state(v1::CANCELLED);
  EXPECT_THAT(summary(), Not(HasSubstr("weights")));
}

TEST(JobPageTest, SummaryOfAResumedJobCountsItsOwnSteps) {
  v1::Job job = Failed();
  job.set_state(v1::SUCCEEDED);
  job.mutable_progress()->set_step(150);
  job.clear_evaluation();
  job.set_restored_from("/srv/c/job-0123456789ab/step-000000000130.g1");
  EXPECT_EQ(SummaryText(job, absl::FromUnixSeconds(1200), {}),
            "digits (job-0123456789ab) SUCCEEDED: 150 of 150 steps, the last 20 in 1 min 30 s, "
            "270 samples/s\n"
            "  weights: not kept, as the job file has neither checkpoint.directory nor "
            "export_final\n");
}

TEST(JobPageTest, RoundsOfSlipstreamHaveALineAndATable) {
  v1::Job job = Failed();
  EXPECT_THAT(JobPage(job, absl::FromUnixSeconds(1200), {}), Not(HasSubstr("Rounds")));
  job.mutable_plan()->set_version(1);
  job.mutable_plan()->mutable_strategy()->mutable_slipstream()->set_mode(v1::SLIPSTREAM_DROP);
  v1::SlipstreamFigures* figures = job.mutable_ranks(0)->mutable_figures()->mutable_slipstream();
  figures->set_mode(v1::SLIPSTREAM_DROP);
  figures->set_rounds(40);
  figures->set_contributing_ranks(60);
  figures->set_contributions(38);
  figures->set_steps(40);
  figures->set_dropped_gradients(2);
  const std::string page = JobPage(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(page, HasSubstr("Strategy:   slipstream drop\n"));
  EXPECT_THAT(page, HasSubstr("Rounds:     40 rounds, 75.0 % of the ranks in each, 5.0 % of the "
                              "steps dropped\n"));
  EXPECT_THAT(page, HasSubstr("\nRounds:\nRANK  STEPS"));
}

TEST(JobPageTest, SummaryOfAFailureTellsTheReason) {
  v1::Job job = Failed();
  job.clear_failure();
  const std::string text = SummaryText(job, absl::FromUnixSeconds(1200), {});
  EXPECT_THAT(text, HasSubstr("\n  rank 1 on w0: killed by SIGKILL\n"));
  EXPECT_THAT(text, Not(HasSubstr("weights")));
}

TEST(JobPageTest, SummaryLeavesTheReasonToTheFailureBelowIt) {
  EXPECT_THAT(SummaryText(Failed(), absl::FromUnixSeconds(1200), {}),
              Not(HasSubstr("killed by SIGKILL")));
}

}  // namespace
}  // namespace paceline
