// The rules of jobs that run a program of one's own: commands, and sessions among them.
#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::JobSpec Command(const std::string& change = "") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'own' command: ['python3', 'train.py'] working_directory: '/home/ann'", &spec));
  v1::JobSpec merged;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &merged));
  spec.MergeFrom(merged);
  return spec;
}

TEST(CommandSpecTest, NeedsNothingElse) {
  v1::JobSpec spec = Command();
  EXPECT_THAT(Fields(spec), IsEmpty());
  FillDefaults(&spec);
  EXPECT_EQ(spec.ranks(), 1);
  EXPECT_TRUE(spec.watch());
  EXPECT_EQ(spec.stop_grace_s(), 10);
  EXPECT_EQ(spec.stragglers().mode(), v1::STRAGGLER_MODE_ADVISE);
  EXPECT_EQ(spec.batch_per_rank(), 0) << "it says nothing to a program that is not ours";
  EXPECT_THAT(Fields(spec), IsEmpty()) << "with its defaults it is the same";
  const std::string filled = spec.SerializeAsString();
  FillDefaults(&spec);
  EXPECT_EQ(spec.SerializeAsString(), filled);
}

TEST(CommandSpecTest, StragglersAreLookedForWhereStepsAreWatched) {
  v1::JobSpec spec = Command("watch: false");
  FillDefaults(&spec);
  EXPECT_EQ(spec.stragglers().mode(), v1::STRAGGLER_MODE_OFF);
  EXPECT_FALSE(spec.watch());
}

TEST(CommandSpecTest, WhatDoesNotGoWithItIsRefusedByName) {
  EXPECT_THAT(
      Fields(Command("model { mlp {} } data { train: '/a' } batch_per_rank: 3 "
                     "optimizer { sgd {} } recovery { spares: 1 } seed: 1 "
                     "checkpoint { directory: '/c' } resume_from: '/d' "
                     "strategy { ddp {} } chaos {} allow_chaos: true")),
      UnorderedElementsAre("model", "data", "batch_per_rank", "optimizer", "seed", "checkpoint",
                           "chaos", "strategy", "resume_from", "recovery", "allow_chaos"));
}

TEST(CommandSpecTest, EachValueIsChecked) {
  EXPECT_THAT(Fields(Command("stragglers { mode: STRAGGLER_MODE_AUTO }")),
              ElementsAre("stragglers.mode"));
  EXPECT_THAT(Fields(Command("stop_grace_s: -1")), ElementsAre("stop_grace_s"));
  EXPECT_THAT(Fields(Command("stop_grace_s: inf")), ElementsAre("stop_grace_s"));
  EXPECT_THAT(Fields(Command("steps: -1")), ElementsAre("steps"));
  EXPECT_THAT(Fields(Command("steps: 5 max_restarts: 2 stall_warning_s: 3")), IsEmpty());
  EXPECT_THAT(Fields(Command("working_directory: 'home'")), ElementsAre("working_directory"));
  EXPECT_THAT(Fields(Command("venv: '../venv'")), ElementsAre("venv"));
  EXPECT_THAT(Fields(Command("ranks: 5000")), ElementsAre("ranks"));
  v1::JobSpec spec = Command();
  spec.clear_working_directory();
  EXPECT_THAT(Fields(spec), ElementsAre("working_directory"));
  spec = Command();
  spec.set_command(0, "");
  EXPECT_THAT(Fields(spec), ElementsAre("command[0]"));
  for (int i = 0; i < 255; ++i) spec.add_command("x");
  spec.set_command(0, "a");
  EXPECT_THAT(Fields(spec), ElementsAre("command"));
  spec = Command();
  spec.set_command(1, std::string("a\0b", 3));
  EXPECT_THAT(Fields(spec), ElementsAre("command[1]"));
}

TEST(CommandSpecTest, CodeTakesThePlaceOfTheWorkingDirectory) {
  v1::JobSpec spec = Command();
  spec.mutable_code()->set_sha256(std::string(64, 'a'));
  spec.mutable_code()->set_bytes(kMaxCodeBytes);
  EXPECT_THAT(Fields(spec), ElementsAre("working_directory"));
  spec.clear_working_directory();
  EXPECT_THAT(Fields(spec), IsEmpty());
  for (const std::string& digits : {std::string(64, 'A'), std::string(63, 'a'), std::string()}) {
    spec.mutable_code()->set_sha256(digits);
    EXPECT_THAT(Fields(spec), ElementsAre("code.sha256")) << digits;
  }
  spec.mutable_code()->set_sha256(std::string(64, '0'));
  spec.mutable_code()->set_bytes(kMaxCodeBytes + 1);
  spec.mutable_code()->set_files(-1);
  EXPECT_THAT(Fields(spec), ElementsAre("code.bytes", "code.files"));
}

TEST(CommandSpecTest, VariablesHaveNamesThatAreTheJobsOwn) {
  const auto problem = [](const std::string& name) {
    v1::JobSpec spec = Command();
    (*spec.mutable_environment())[name] = "x";
    const std::vector<std::string> fields = Fields(spec);
    return fields.empty() ? "" : fields.front();
  };
  for (const char* name : {"A", "_a1", "HF_HOME", "OMP_NUM_THREADS", "NCCL_DEBUG", "PYTHONPATH"}) {
    EXPECT_EQ(problem(name), "") << name;
  }
  for (const char* name : {"", "1A", "A-B", "A=B", "RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                           "PACELINE_RING", "CUDA_VISIBLE_DEVICES"}) {
    EXPECT_EQ(problem(name), "environment") << name;
  }
  v1::JobSpec spec = Command();
  (*spec.mutable_environment())["A"] = std::string("x\0", 2);
  EXPECT_THAT(Fields(spec), ElementsAre("environment.A"));
}

TEST(CommandSpecTest, ItsKeysNeedACommand) {
  for (const char* change :
       {"working_directory: '/a'", "venv: '/v'", "stop_grace_s: 3", "watch: false",
        "environment { key: 'A' value: 'b' }", "code: { bytes: 1 }", "session: true"}) {
    v1::JobSpec spec = Sound();
    v1::JobSpec merged;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &merged));
    spec.MergeFrom(merged);
    const std::string text = change;
    EXPECT_THAT(Fields(spec), ElementsAre(text.substr(0, text.find_first_of(": ")))) << change;
  }
}

v1::JobSpec Session(const std::string& change = "") {
  return Command("session: true steps: 100 " + change);
}

std::string MessageOf(const v1::JobSpec& spec, const std::string& field) {
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    if (problem.field == field) return problem.message;
  }
  return "";
}

TEST(SessionSpecTest, ItsDefaultsAreThoseOfATrainingAndOfACommand) {
  v1::JobSpec spec = Session("checkpoint { directory: '/c' every_steps: 10 }");
  EXPECT_THAT(Fields(spec), IsEmpty());
  FillDefaults(&spec);
  EXPECT_THAT(Fields(spec), IsEmpty()) << "with its defaults it is the same";
  EXPECT_EQ(spec.stop_grace_s(), 10);
  EXPECT_EQ(spec.batch_per_rank(), 32);
  EXPECT_EQ(spec.accumulation_steps(), 1);
  EXPECT_EQ(spec.log_every(), 10);
  EXPECT_EQ(spec.collective_timeout_s(), 300);
  EXPECT_EQ(spec.stall_warning_s(), 100);
  EXPECT_EQ(spec.hang_timeout_s(), 200);
  EXPECT_EQ(spec.recovery().window_s(), 3600);
  EXPECT_TRUE(spec.strategy().has_ddp());
  EXPECT_TRUE(spec.checkpoint().at_end());
  EXPECT_FALSE(spec.has_watch()) << "its steps are measured anyway";
  EXPECT_FALSE(spec.has_model() || spec.has_data() || spec.has_optimizer() || spec.has_schedule());
  const std::string filled = spec.SerializeAsString();
  FillDefaults(&spec);
  EXPECT_EQ(spec.SerializeAsString(), filled);
}

TEST(SessionSpecTest, WhatTheEngineDoesGoesWithIt) {
  EXPECT_THAT(
      Fields(Session("ranks: 4 batch_per_rank: 8 accumulation_steps: 2 clip_grad_norm: 1 seed: 3 "
                     "on_nonfinite: NON_FINITE_SKIP gradient_format: WIRE_FORMAT_BF16 "
                     "recovery { max_failures: 3 spares: 1 min_ranks: 2 } resume_from: 'a/1' "
                     "checkpoint { directory: '/c' } evaluation { every: 5 } save_nan: true "
                     "stragglers { mode: STRAGGLER_MODE_AUTO } log_every: 2 peak_flops: 1e12 "
                     "flops_per_sample: 1e9 count_flops: false "
                     "collective_timeout_s: 9 startup_timeout_s: 90 hang_timeout_s: 6 "
                     "stall_warning_s: 3 give_up_s: 60 allow_chaos: true "
                     "chaos { kind: FREEZE } max_restarts: 2 stop_grace_s: 5 venv: '/v'")),
      IsEmpty());
  EXPECT_THAT(Fields(Session("strategy { auto {} }")), IsEmpty());
}

TEST(SessionSpecTest, WhatItsProgramBringsIsRefusedByName) {
  EXPECT_THAT(
      Fields(Session("model { mlp {} } data { train: '/a' } optimizer { sgd {} } "
                     "schedule { constant {} } precision: BF16 init_from: '/w' cuda_graph: true "
                     "export_final: '/a.safetensors' watch: false")),
      UnorderedElementsAre("model", "data", "optimizer", "schedule", "precision", "init_from",
                           "cuda_graph", "export_final", "watch"));
  EXPECT_EQ(MessageOf(Session("watch: true"), "watch"),
            "does not go with session: its steps are measured anyway; take it out");
  EXPECT_EQ(MessageOf(Session("model { mlp {} }"), "model"),
            "does not go with session: the program decides that itself; take it out");
}

TEST(SessionSpecTest, WhatTheEngineIsToldIsChecked) {
  v1::JobSpec spec = Session();
  spec.clear_steps();
  EXPECT_THAT(Fields(spec), ElementsAre("steps"));
  EXPECT_THAT(Fields(Session("recovery { spares: 1 }")), ElementsAre("recovery.spares"));
  EXPECT_THAT(Fields(Session("checkpoint { every_steps: 3 }")),
              ElementsAre("checkpoint.every_steps"));
  EXPECT_THAT(Fields(Session("strategy { hsgd { ladder { size: 2 } } }")),
              ElementsAre("strategy.hsgd.ladder[0].period", "strategy.hsgd.ladder[0].size"));
  EXPECT_THAT(Fields(Session("collective_timeout_s: 10 startup_timeout_s: 29")),
              ElementsAre("startup_timeout_s"));
  EXPECT_THAT(Fields(Session("chaos { kind: EXIT }")), ElementsAre("chaos"));
  EXPECT_THAT(Fields(Session("allow_chaos: true chaos { kind: FLIP_BIT }")),
              ElementsAre("chaos[0].kind"));
  EXPECT_THAT(Fields(Session("strategy { slipstream {} } gradient_format: WIRE_FORMAT_FP8")),
              ElementsAre("gradient_format"));
}

TEST(SessionSpecTest, SlipstreamBeginsInTheModeThatSuitsAnyOptimizer) {
  v1::JobSpec spec = Session("strategy { slipstream {} }");
  FillDefaults(&spec);
  EXPECT_EQ(spec.strategy().slipstream().mode(), v1::SLIPSTREAM_DROP);
}

TEST(SessionSpecTest, OtherCommandsAreToldOfIt) {
  EXPECT_EQ(MessageOf(Command("recovery { max_failures: 1 }"), "recovery"),
            "does not go with command: a lost rank ends the training; give max_restarts instead, "
            "or give session: true if it calls paceline.init()");
  EXPECT_EQ(MessageOf(Command("model { mlp {} }"), "model"),
            "does not go with command: the program decides that itself; take it out");
}

TEST(SessionSpecTest, AnEngineTrainsBuiltInModelsAndSessions) {
  EXPECT_TRUE(HasEngine(Sound()));
  EXPECT_TRUE(HasEngine(Session()));
  EXPECT_FALSE(HasEngine(Command()));
}

}  // namespace
}  // namespace paceline
