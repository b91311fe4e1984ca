#include "cli/job_file/job_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/job_file/sound_job_file.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobFileTest, ReadsEveryKindOfValue) {
  const JobFile file = ParseJobFile(std::string(kSound) + R"(
schedule: {kind: step, every: 10, gamma: 0.5, warmup_steps: 5}
seed: 7
precision: bf16
evaluation: {every: 20}
checkpoint: {directory: out, every_steps: 10, every_s: 1.5, keep_latest: 0, keep_every: 30,
             at_end: false, when_busy: wait, write_limit_mb_s: 20, on_damage: previous}
max_restarts: 2
resume_from: digits/100
collective_timeout_s: 2.5
allow_chaos: true
chaos:
  - {rank: 3, step: 5, kind: out_of_memory, generation: 2}
  - {kind: sleep, seconds: 1}
)",
                                    "/jobs");
  EXPECT_THAT(file.problems, IsEmpty());
  const v1::JobSpec& spec = file.spec;
  EXPECT_EQ(spec.name(), "digits");
  EXPECT_EQ(spec.ranks(), 4);
  EXPECT_TRUE(spec.model().has_resnet18());
  EXPECT_EQ(spec.optimizer().sgd().momentum(), 0.9);
  EXPECT_TRUE(spec.optimizer().sgd().nesterov());
  EXPECT_EQ(spec.schedule().step().every(), 10);
  EXPECT_EQ(spec.schedule().warmup_steps(), 5);
  EXPECT_EQ(spec.precision(), v1::BF16);
  EXPECT_EQ(spec.collective_timeout_s(), 2.5);
  EXPECT_EQ(spec.chaos(0).kind(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(spec.chaos(1).seconds(), 1);
  EXPECT_EQ(spec.chaos(0).generation(), 2);
  EXPECT_EQ(spec.max_restarts(), 2);
  EXPECT_EQ(spec.resume_from(), "digits/100");
  v1::CheckpointPolicy checkpoint;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "directory: '/jobs/out' every_steps: 10 every_s: 1.5 keep_latest: 0 keep_every: 30 "
      "at_end: false when_busy: WHEN_BUSY_WAIT write_limit_mb_s: 20 on_damage: ON_DAMAGE_PREVIOUS",
      &checkpoint));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(spec.checkpoint(), checkpoint))
      << spec.checkpoint().ShortDebugString();
}

// A sound file whose model and strategy the lines give.
std::string WithModel(const std::string& lines) {
  return "name: a\nranks: 8\ndata: {train: t}\nsteps: 5\n"
         "optimizer: {kind: adamw, learning_rate: 1}\n" +
         lines;
}

constexpr char kLadder[] = R"(model: {kind: llama, preset: 1b, kv_heads: 4, tie_embeddings: false}
strategy:
  kind: hsgd
  warmup_steps: 3
  gradient_group_size: 2
  optimizer_state: average
  ladder:
    - {period: 2, size: 2}
    - {period: 4, level: node, format: int8}
    - {period: 8, level: all, format: int8, outer: {kind: slowmo, momentum: 0.8}}
)";

TEST(JobFileTest, ReadsALlamaAndALadder) {
  const JobFile file = ParseJobFile(WithModel(kLadder), "/jobs");
  for (const FileProblem& problem : file.problems) ADD_FAILURE() << problem.message;
  const v1::Llama& llama = file.spec.model().llama();
  EXPECT_EQ(llama.preset(), v1::LLAMA_PRESET_1B);
  EXPECT_EQ(llama.dim(), 2048);
  EXPECT_EQ(llama.kv_heads(), 4);
  EXPECT_FALSE(llama.tie_embeddings());
  const v1::Strategy& strategy = file.spec.strategy();
  EXPECT_EQ(strategy.warmup_steps(), 3);
  EXPECT_EQ(strategy.gradient_group_size(), 2);
  EXPECT_EQ(strategy.optimizer_state(), v1::OPTIMIZER_STATE_AVERAGE);
  ASSERT_EQ(strategy.hsgd().ladder_size(), 3);
  EXPECT_EQ(strategy.hsgd().ladder(0).size(), 2);
  EXPECT_EQ(strategy.hsgd().ladder(0).format(), v1::WIRE_FORMAT_FP32);
  EXPECT_EQ(strategy.hsgd().ladder(1).period(), 4);
  EXPECT_EQ(strategy.hsgd().ladder(1).level(), v1::SCOPE_NODE);
  EXPECT_EQ(strategy.hsgd().ladder(2).format(), v1::WIRE_FORMAT_INT8);
  EXPECT_FALSE(strategy.hsgd().ladder(1).has_outer());
  EXPECT_EQ(strategy.hsgd().ladder(2).outer().kind(), v1::OUTER_SLOWMO);
  EXPECT_EQ(strategy.hsgd().ladder(2).outer().learning_rate(), 1);
  EXPECT_EQ(strategy.hsgd().ladder(2).outer().momentum(), 0.8);
}

TEST(JobFileTest, AKeyOfTwoKindsIsThatOfTheKind) {
  const JobFile file = ParseJobFile(WithModel("model: {file: m.pt2, kind: compiled}\n"), "/jobs");
  for (const FileProblem& problem : file.problems) ADD_FAILURE() << problem.message;
  EXPECT_EQ(file.spec.model().compiled().file(), "/jobs/m.pt2");
  const JobFile other = ParseJobFile(WithModel("model: {kind: mlp, file: m.pt2}\n"), "/jobs");
  ASSERT_EQ(other.problems.size(), 1U);
  EXPECT_THAT(other.problems[0].message,
              HasSubstr("belongs to kind torchscript or compiled; the kind is mlp"));
}

TEST(JobFileTest, ReadsWhatStepsDo) {
  const JobFile file = ParseJobFile(
      WithModel(
          "model: {kind: torchscript, file: m.pt}\naccumulation_steps: 4\n"
          "clip_grad_norm: 0.5\non_nonfinite: skip\nexport_final: out.safetensors\n"
          "gradient_format: fp16\nstartup_timeout_s: 1000\npeak_flops: 1e12\n"
          "strategy: {kind: local_sgd, period: 6}\n"
          "chaos: [{rank: -1, kind: nan_loss, steps: 2, probability: 0.5}]\nallow_chaos: true\n"),
      "/jobs");
  for (const FileProblem& problem : file.problems) ADD_FAILURE() << problem.message;
  EXPECT_EQ(file.spec.model().torchscript().file(), "/jobs/m.pt");
  EXPECT_EQ(file.spec.accumulation_steps(), 4);
  EXPECT_EQ(file.spec.clip_grad_norm(), 0.5);
  EXPECT_EQ(file.spec.on_nonfinite(), v1::NON_FINITE_SKIP);
  EXPECT_EQ(file.spec.export_final(), "/jobs/out.safetensors");
  EXPECT_EQ(file.spec.gradient_format(), v1::WIRE_FORMAT_FP16);
  EXPECT_EQ(file.spec.startup_timeout_s(), 1000);
  EXPECT_EQ(file.spec.peak_flops(), 1e12);
  EXPECT_EQ(file.spec.strategy().local_sgd().period(), 6);
  EXPECT_EQ(file.spec.chaos(0).rank(), -1);
  EXPECT_EQ(file.spec.chaos(0).kind(), v1::NAN_LOSS);
  EXPECT_EQ(file.spec.chaos(0).probability(), 0.5);
}

TEST(JobFileTest, ReadsTokenFiles) {
  const JobFile file = ParseJobFile(
      "name: a\nmodel: llama\nsteps: 5\noptimizer: {kind: adamw, learning_rate: 1}\n"
      "data: {train: t, sequence_length: 64, token_type: uint16, prefetch_threads: 0,\n"
      "       prefetch_batches: 3}\n",
      "/jobs");
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_EQ(file.spec.data().sequence_length(), 64);
  EXPECT_EQ(file.spec.data().token_type(), v1::TOKEN_TYPE_UINT16);
  EXPECT_EQ(file.spec.data().prefetch_threads(), 0);
  EXPECT_EQ(file.spec.data().prefetch_batches(), 3);
}

TEST(JobFileTest, ProblemOfALevelIsToldAtItsPlace) {
  EXPECT_THAT(
      Problems(WithModel("model: resnet18\nstrategy:\n  kind: hsgd\n  ladder:\n"
                         "    - {period: 4, size: 3}\n    - {period: 6, level: rock}\n")),
      ElementsAre("10:19 strategy.ladder[0].size is 3; allowed are the divisors of the number of "
                  "ranks (8)",
                  "11:8 strategy.ladder[1].period is 6; allowed are multiples of the period before "
                  "it (4) that are above it",
                  "11:19 strategy.ladder[1].level is \"rock\"; allowed is node, rack, all; did you "
                  "mean \"rack\"?"));
}

TEST(JobFileTest, KeysOfOtherStrategiesAndModelsAreTold) {
  EXPECT_THAT(Problems(WithModel("model: {kind: mlp, preset: 1b}\n"
                                 "strategy: {kind: local_sgd, period: 2, ladder: []}\n")),
              ElementsAre("6:20 model.preset belongs to kind llama; the kind is mlp",
                          "7:40 strategy.ladder belongs to kind hsgd; the kind is local_sgd"));
  EXPECT_THAT(Problems(WithModel("model: resnet18\nstrategy: {warmup_steps: 3}\n")),
              ElementsAre("7:12 strategy.warmup_steps is 3; kind ddp has none: leave it out, or "
                          "give kind local_sgd or hsgd"));
}

TEST(JobFileTest, ReadsSlipstream) {
  const JobFile file = ParseJobFile(
      WithModel("model: resnet18\nstrategy: {kind: slipstream, mode: pause, optimizer_state: "
                "average,\n           window: {max_steps: 8}}\n"),
      "/jobs");
  for (const FileProblem& problem : file.problems) ADD_FAILURE() << problem.message;
  const v1::Strategy& strategy = file.spec.strategy();
  EXPECT_EQ(strategy.slipstream().mode(), v1::SLIPSTREAM_PAUSE);
  EXPECT_EQ(strategy.slipstream().window().min_steps(), 1);
  EXPECT_EQ(strategy.slipstream().window().max_steps(), 8);
  EXPECT_EQ(strategy.slipstream().window().max_cap(), 32);
  EXPECT_EQ(strategy.optimizer_state(), v1::OPTIMIZER_STATE_AVERAGE);
  EXPECT_EQ(ParseJobFile(WithModel("model: resnet18\nstrategy: slipstream\n"), "/jobs")
                .spec.strategy()
                .slipstream()
                .mode(),
            v1::SLIPSTREAM_DROP)
      << "with adamw";
}

TEST(JobFileTest, ProblemsOfSlipstreamAreToldAtTheirPlaces) {
  EXPECT_THAT(Problems(WithModel("model: resnet18\nstrategy:\n  kind: slipstream\n  mode: fre\n"
                                 "  optimizer_state: average\n"
                                 "  window: {min_steps: 8, max_steps: 4}\n"
                                 "gradient_format: bf16\n")),
              ElementsAre("9:3 strategy.mode is \"fre\"; allowed is sync, drop, free, pause; did "
                          "you mean \"free\"?",
                          "11:26 strategy.window.max_steps is 4; allowed is min_steps (8) and more",
                          "12:1 gradient_format is bf16; strategy slipstream sends fp32 or int8"));
  EXPECT_THAT(Problems(WithModel("model: resnet18\nstrategy: {kind: hsgd, mode: free}\n")),
              ElementsAre("7:24 strategy.mode belongs to kind slipstream; the kind is hsgd"));
}

TEST(JobFileTest, RelativePathsAreTakenFromTheFilesFolder) {
  const JobFile file = ParseJobFile(
      std::string(kSound) + "init_from: ../weights/a.pt\ncheckpoint: {directory: out/}\n",
      "/home/me/jobs");
  EXPECT_EQ(file.spec.data().train(), "/home/me/jobs/train.shard");
  EXPECT_EQ(file.spec.data().eval(), "/abs/test.shard");
  EXPECT_EQ(file.spec.init_from(), "/home/me/weights/a.pt");
  EXPECT_EQ(file.spec.checkpoint().directory(), "/home/me/jobs/out/");
}

// kSound with another value of data.train.
std::string WithTrain(const std::string& train) {
  return absl::StrCat("name: a\nmodel: resnet18\nsteps: 9\n",
                      "optimizer: {kind: sgd, learning_rate: 1}\ndata:\n  train:", train, "\n");
}

TEST(JobFileTest, TrainIsAFileOrAListOfFiles) {
  const JobFile file = ParseJobFile(WithTrain("\n  - {path: a.tokens, weight: 0.7}\n"
                                              "  - {path: /b.tokens, weight: 3}"),
                                    "/jobs");
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_EQ(file.spec.data().train(), "");
  ASSERT_EQ(file.spec.data().sources_size(), 2);
  EXPECT_EQ(file.spec.data().sources(0).path(), "/jobs/a.tokens");
  EXPECT_EQ(file.spec.data().sources(0).weight(), 0.7);
  EXPECT_EQ(file.spec.data().sources(1).path(), "/b.tokens");
}

TEST(JobFileTest, AddressesOfObjectsStayAsTheyAre) {
  const JobFile file = ParseJobFile(
      WithTrain("\n  - path: s3://corpora//a/b.tokens\n  - {path: \"gs://b/k\"}"), "/jobs");
  EXPECT_THAT(file.problems, IsEmpty());
  ASSERT_EQ(file.spec.data().sources_size(), 2);
  EXPECT_EQ(file.spec.data().sources(0).path(), "s3://corpora//a/b.tokens");
  EXPECT_EQ(file.spec.data().sources(1).path(), "gs://b/k");
}

TEST(JobFileTest, ProblemsOfAListOfFilesAreToldWhereTheyStand) {
  EXPECT_THAT(Problems(WithTrain(" []")),
              ElementsAre("6:3 data.train is missing; give the file with the training samples"));
  EXPECT_THAT(Problems(WithTrain(" [a.tokens]")),
              ElementsAre("6:11 data.train[0] is a single value; it takes a group of keys: path, "
                          "weight, hash"));
  EXPECT_THAT(Problems(WithTrain("\n  - {path: a, weight: 1}\n  - {path: b}")),
              ElementsAre("8:5 data.train[1].weight is missing, and other files have one; give all "
                          "of them one, or none"));
  EXPECT_THAT(Problems(WithTrain("\n  - {path: a, weight: 0}")),
              ElementsAre(HasSubstr("7:15 data.train[0].weight is 0; allowed is more than 0")));
  EXPECT_THAT(Problems(WithTrain("\n  - {path: a, wieght: 1}")),
              ElementsAre("7:15 unknown key \"wieght\" in data.train[0]; did you mean "
                          "\"data.train[0].weight\"?"));
}

TEST(JobFileTest, WhatOnlyAShellReplacesIsRefusedInEveryPath) {
  for (const char* line : {"checkpoint: {directory: ~/ckpt}", "init_from: $HOME/a.pt",
                           "export_final: ~ann/f.safetensors", "resume_from: ~/ckpt/400",
                           "init_from: /data/${USER}/a.pt"}) {
    const JobFile file = ParseJobFile(absl::StrCat(kSound, line, "\n"), "/jobs");
    ASSERT_EQ(file.problems.size(), 1u) << line;
    EXPECT_THAT(file.problems[0].message, HasSubstr("is not replaced here")) << line;
    EXPECT_THAT(file.problems[0].message, HasSubstr("write the whole path")) << line;
  }
  const JobFile file =
      ParseJobFile(absl::StrCat(kSound, "checkpoint: {directory: ./~/ckpt}\n"), "/jobs");
  EXPECT_TRUE(file.problems.empty());
  EXPECT_EQ(file.spec.checkpoint().directory(), "/jobs/~/ckpt");
}

TEST(JobFileTest, PathsOfAPipeAreTakenFromTheCurrentFolder) {
  const std::string pipe = ::testing::TempDir() + "/job_pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&pipe] { std::ofstream(pipe) << kSound; });
  const absl::StatusOr<JobFile> file = ReadJobFile(pipe);
  writer.join();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec.data().train(), (std::filesystem::current_path() / "train.shard").string());
}

TEST(JobFileTest, AFileInSharedMemoryHasAFolder) {
  std::string folder = "/dev/shm/jobXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/job.yaml") << kSound;
  const absl::StatusOr<JobFile> file = ReadJobFile(folder + "/job.yaml");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec.data().train(), folder + "/train.shard");
}

TEST(JobFileTest, DefaultsAreWrittenIn) {
  const JobFile file = ParseJobFile(kSound, "/jobs");
  EXPECT_EQ(file.spec.batch_per_rank(), 32);
  EXPECT_TRUE(file.spec.schedule().has_constant());
}

TEST(JobFileTest, ShortAndLongFormOfAKindAreTheSame) {
  const JobFile brief = ParseJobFile(std::string(kSound) + "schedule: cosine\n", "/jobs");
  const JobFile full = ParseJobFile(std::string(kSound) + "schedule: {kind: cosine}\n", "/jobs");
  EXPECT_THAT(brief.problems, IsEmpty());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(brief.spec, full.spec));
}

TEST(JobFileTest, KeyOfAFieldLeavesTheChoiceOut) {
  EXPECT_EQ(KeyOfField("optimizer.sgd.momentum"), "optimizer.momentum");
  EXPECT_EQ(KeyOfField("data.sources[1].path"), "data.train[1].path");
  EXPECT_EQ(KeyOfField("optimizer.adamw.beta1"), "optimizer.beta1");
  EXPECT_EQ(KeyOfField("model.kind"), "model.kind");
  EXPECT_EQ(KeyOfField("model.mlp.hidden[2]"), "model.hidden[2]");
  EXPECT_EQ(KeyOfField("chaos[0].rank"), "chaos[0].rank");
  EXPECT_EQ(KeyOfField("strategy.hsgd.ladder[1].size"), "strategy.ladder[1].size");
  EXPECT_EQ(KeyOfField("model.llama.tie_embeddings"), "model.tie_embeddings");
}

TEST(ExampleTest, EveryExampleIsSound) {
  for (const char* name : {"digits-resnet18.yaml", "digits-mlp.yaml", "digits-slipstream.yaml",
                           "digits-stragglers.yaml", "llama-diloco.yaml", "llama-gpu.yaml",
                           "llama-hsgd.yaml", "torchscript-cnn.yaml"}) {
    const absl::StatusOr<JobFile> file = ReadJobFile(std::string("deploy/examples/") + name);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const FileProblem& problem : file->problems) ADD_FAILURE() << name << problem.message;
  }
}

TEST(JobFileTest, WhatInitProposesIsSound) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("python/tests/onboard")) {
    if (entry.path().extension() != ".yaml") continue;
    const absl::StatusOr<JobFile> file = ReadJobFile(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status();
    for (const FileProblem& problem : file->problems) ADD_FAILURE() << entry << problem.message;
    EXPECT_TRUE(file->spec.session()) << entry;
    ++count;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace paceline
