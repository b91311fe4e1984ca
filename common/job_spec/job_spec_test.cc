#include "common/job_spec/job_spec.h"

#include <ostream>
#include <string>
#include <vector>

#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A change of the sound spec, in text format merged over it, and the field that it breaks
// (empty: still sound).
struct Rule {
  std::string name;
  std::string change;
  std::string broken;

  friend std::ostream& operator<<(std::ostream& out, const Rule& r) { return out << r.change; }
};

class JobSpecRuleTest : public ::testing::TestWithParam<Rule> {};

TEST_P(JobSpecRuleTest, IsKept) {
  v1::JobSpec change;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam().change, &change));
  v1::JobSpec spec = Sound();
  spec.MergeFrom(change);
  if (GetParam().broken.empty()) {
    EXPECT_THAT(Fields(spec), IsEmpty());
  } else {
    EXPECT_THAT(Fields(spec), ElementsAre(GetParam().broken));
  }
}

std::string Name(const ::testing::TestParamInfo<Rule>& info) { return info.param.name; }

const char kLong63[] = "name: 'a23456789012345678901234567890123456789012345678901234567890123'";
const char kLong64[] = "name: 'a234567890123456789012345678901234567890123456789012345678901234'";

INSTANTIATE_TEST_SUITE_P(
    Top, JobSpecRuleTest,
    ::testing::Values(
        Rule{"NameStartsWithLetter", "name: '1a'", "name"},
        Rule{"NameHasNoUpperCase", "name: 'aB'", "name"},
        Rule{"NameHasNoUnderscore", "name: 'a_b'", "name"},
        Rule{"NameMayHaveHyphenAndDigit", "name: 'a-1'", ""}, Rule{"NameOf63", kLong63, ""},
        Rule{"NameOf64", kLong64, "name"}, Rule{"RanksNegative", "ranks: -1", "ranks"},
        Rule{"RanksMost", "ranks: 4096", ""}, Rule{"RanksTooMany", "ranks: 4097", "ranks"},
        Rule{"DeviceKnown", "device: CUDA", ""}, Rule{"DeviceUnknown", "device: 7", "device"},
        Rule{"ThreadsNegative", "threads_per_rank: -1", "threads_per_rank"},
        Rule{"ThreadsMost", "threads_per_rank: 1024", ""},
        Rule{"ThreadsTooMany", "threads_per_rank: 1025", "threads_per_rank"},
        Rule{"BatchNegative", "batch_per_rank: -1", "batch_per_rank"},
        Rule{"StepsNegative", "steps: -1", "steps"}, Rule{"SeedNegative", "seed: -1", "seed"},
        Rule{"PrecisionUnknown", "precision: 9", "precision"},
        Rule{"LogEveryNegative", "log_every: -1", "log_every"},
        Rule{"TimeoutNegative", "collective_timeout_s: -1", "collective_timeout_s"},
        Rule{"TimeoutInfinite", "collective_timeout_s: inf", "collective_timeout_s"},
        Rule{"TimeoutNan", "collective_timeout_s: nan", "collective_timeout_s"}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Parts, JobSpecRuleTest,
    ::testing::Values(
        Rule{"HiddenZero", "model { mlp { hidden: [8, 0] } }", "model.mlp.hidden[1]"},
        Rule{"HiddenMost", "model { mlp { hidden: 2147483647 } }", ""},
        Rule{"HiddenTooWide", "model { mlp { hidden: 2147483648 } }", "model.mlp.hidden[0]"},
        Rule{"OrderUnknown", "data { order: 5 }", "data.order"},
        Rule{"RateNegative", "optimizer { learning_rate: -0.1 }", "optimizer.learning_rate"},
        Rule{"RateNan", "optimizer { learning_rate: nan }", "optimizer.learning_rate"},
        Rule{"DecayNegative", "optimizer { weight_decay: -1 }", "optimizer.weight_decay"},
        Rule{"MomentumOne", "optimizer { sgd { momentum: 1 } }", "optimizer.sgd.momentum"},
        Rule{"MomentumNegative", "optimizer { sgd { momentum: -0.1 } }", "optimizer.sgd.momentum"},
        Rule{"NesterovAlone", "optimizer { sgd { nesterov: true } }", "optimizer.sgd.nesterov"},
        Rule{"NesterovWithMomentum", "optimizer { sgd { nesterov: true momentum: 0.9 } }", ""},
        Rule{"Beta1Zero", "optimizer { adamw { beta1: 0 } }", ""},
        Rule{"Beta1One", "optimizer { adamw { beta1: 1 } }", "optimizer.adamw.beta1"},
        Rule{"Beta2Negative", "optimizer { adamw { beta2: -1 } }", "optimizer.adamw.beta2"},
        Rule{"EpsilonZero", "optimizer { adamw { epsilon: 0 } }", "optimizer.adamw.epsilon"},
        Rule{"WarmupNegative", "schedule { warmup_steps: -1 }", "schedule.warmup_steps"},
        Rule{"WarmupBelowSteps", "schedule { warmup_steps: 99 }", ""},
        Rule{"WarmupAll", "schedule { warmup_steps: 100 }", "schedule.warmup_steps"},
        Rule{"CosineEnds", "schedule { warmup_steps: 4 cosine { steps: 5 } }", ""},
        Rule{"CosineEndsInTheWarmUp", "schedule { warmup_steps: 4 cosine { steps: 4 } }",
             "schedule.cosine.steps"},
        Rule{"CosineEndsBeforeItBegins", "schedule { cosine { steps: -1 } }",
             "schedule.cosine.steps"},
        Rule{"FinalRatioOne", "schedule { cosine { final_ratio: 1 } }", ""},
        Rule{"FinalRatioMore", "schedule { cosine { final_ratio: 1.1 } }",
             "schedule.cosine.final_ratio"},
        Rule{"StepEveryMissing", "schedule { step {} }", "schedule.step.every"},
        Rule{"StepEveryNegative", "schedule { step { every: -3 } }", "schedule.step.every"},
        Rule{"GammaOne", "schedule { step { every: 1 gamma: 1 } }", ""},
        Rule{"GammaZero", "schedule { step { every: 1 gamma: 0 } }", "schedule.step.gamma"},
        Rule{"EvaluationNegative", "evaluation { every: -1 }", "evaluation.every"},
        Rule{"EvaluationWithoutData", "evaluation { every: 5 }", "evaluation.every"},
        Rule{"EvaluationWithData", "evaluation { every: 5 } data { eval: '/e' }", ""},
        Rule{"ChaosNotAllowed", "chaos { kind: ABORT }", "chaos"},
        Rule{"ChaosAllowedAndNone", "allow_chaos: true", ""},
        Rule{"SlowWithFactor", "allow_chaos: true chaos { kind: SLOW factor: 1.5 }", ""},
        Rule{"SlowWithoutFactor", "allow_chaos: true chaos { kind: SLOW }", "chaos[0].factor"},
        Rule{"SlowBelowOne", "allow_chaos: true chaos { kind: SLOW factor: 0.5 }",
             "chaos[0].factor"},
        Rule{"GrowthNegative", "allow_chaos: true chaos { kind: MEMORY_GROWTH megabytes: -1 }",
             "chaos[0].megabytes"},
        Rule{"FaultUntilAFile", "allow_chaos: true chaos { kind: SLEEP until_file: '/tmp/over' }",
             ""},
        Rule{"FaultUntilARelativeFile",
             "allow_chaos: true chaos { kind: SLEEP until_file: 'over' }", "chaos[0].until_file"},
        Rule{"FlipBitWithSlipstream",
             "strategy { slipstream {} } allow_chaos: true chaos { kind: FLIP_BIT }", ""},
        Rule{"FlipBitUnnoticed", "allow_chaos: true chaos { kind: FLIP_BIT }", "chaos[0].kind"},
        Rule{"StragglerModeUnknown", "stragglers { mode: 9 }", "stragglers.mode"},
        Rule{"FaultRankLast", "ranks: 2 allow_chaos: true chaos { rank: 1 kind: ABORT }", ""},
        Rule{"FaultRankBeyond", "ranks: 2 allow_chaos: true chaos { rank: 2 kind: ABORT }",
             "chaos[0].rank"},
        Rule{"FaultStepNegative", "allow_chaos: true chaos { step: -1 kind: EXIT }",
             "chaos[0].step"},
        Rule{"FaultStepBeyond", "allow_chaos: true chaos { step: 100 kind: EXIT }",
             "chaos[0].step"},
        Rule{"FaultOfEveryRank", "ranks: 2 allow_chaos: true chaos { rank: -1 kind: ABORT }", ""},
        Rule{"FaultRankBelow", "ranks: 2 allow_chaos: true chaos { rank: -2 kind: ABORT }",
             "chaos[0].rank"},
        Rule{"FaultNanLoss", "allow_chaos: true chaos { kind: NAN_LOSS steps: 200 probability: 1 }",
             ""},
        Rule{"FaultStepsNegative", "allow_chaos: true chaos { kind: EXIT steps: -1 }",
             "chaos[0].steps"},
        Rule{"FaultNeverProbable", "allow_chaos: true chaos { kind: EXIT probability: 0 }",
             "chaos[0].probability"},
        Rule{"FaultTooProbable", "allow_chaos: true chaos { kind: EXIT probability: 1.5 }",
             "chaos[0].probability"},
        Rule{"FaultKindMissing", "allow_chaos: true chaos { kind: SLEEP } chaos {}",
             "chaos[1].kind"},
        Rule{"FaultKindUnknown", "allow_chaos: true chaos { kind: 99 }", "chaos[0].kind"},
        Rule{"FaultSecondsNegative", "allow_chaos: true chaos { kind: SLEEP seconds: -1 }",
             "chaos[0].seconds"}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Steps, JobSpecRuleTest,
    ::testing::Values(
        Rule{"AccumulationNegative", "accumulation_steps: -1", "accumulation_steps"},
        Rule{"Accumulation", "accumulation_steps: 8", ""},
        Rule{"ClipNegative", "clip_grad_norm: -1", "clip_grad_norm"},
        Rule{"ClipNan", "clip_grad_norm: nan", "clip_grad_norm"},
        Rule{"NonFiniteKnown", "on_nonfinite: NON_FINITE_IGNORE", ""},
        Rule{"NonFiniteUnknown", "on_nonfinite: 7", "on_nonfinite"},
        Rule{"ExportSafetensors", "export_final: '/a.safetensors'", ""},
        Rule{"ExportOther", "export_final: '/a.pt'", "export_final"},
        Rule{"GradientsFp16", "gradient_format: WIRE_FORMAT_FP16", ""},
        Rule{"GradientsInt8", "gradient_format: WIRE_FORMAT_INT8", "gradient_format"},
        Rule{"GradientsUnknown", "gradient_format: 9", "gradient_format"},
        Rule{"StartupJustLong", "collective_timeout_s: 10 startup_timeout_s: 30", ""},
        Rule{"StartupShort", "collective_timeout_s: 10 startup_timeout_s: 29", "startup_timeout_s"},
        Rule{"StartupNan", "startup_timeout_s: nan", "startup_timeout_s"},
        Rule{"StartupInfinite", "startup_timeout_s: inf", "startup_timeout_s"},
        Rule{"PeakNegative", "peak_flops: -1", "peak_flops"},
        Rule{"PeakInfinite", "peak_flops: inf", "peak_flops"},
        Rule{"GraphMlp", "cuda_graph: true device: CUDA model { mlp {} }", ""},
        Rule{"GraphLlama", "cuda_graph: true device: CUDA model { llama {} }", ""},
        Rule{"GraphResNet", "cuda_graph: true device: CUDA", "cuda_graph"},
        Rule{"GraphCpu", "cuda_graph: true model { mlp {} }", "cuda_graph"},
        Rule{"GraphNan",
             "cuda_graph: true device: CUDA model { mlp {} } allow_chaos: true chaos { kind: "
             "NAN_LOSS }",
             "cuda_graph"},
        Rule{"GraphRanks", "cuda_graph: true device: CUDA model { mlp {} } ranks: 2", "cuda_graph"},
        Rule{"GraphAccumulation",
             "cuda_graph: true device: CUDA model { mlp {} } accumulation_steps: 2", "cuda_graph"}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    ModelsAndData, JobSpecRuleTest,
    ::testing::Values(
        Rule{"Resnet18", "model { resnet18 { sync_batchnorm: true } }", ""},
        Rule{"SyncBatchnormLocal",
             "model { resnet18 { sync_batchnorm: true } } strategy { local_sgd { period: 4 } }",
             "model.resnet18.sync_batchnorm"},
        Rule{"Llama", "model { llama {} }", ""},
        Rule{"Llama8b", "model { llama { preset: LLAMA_PRESET_8B } }", ""},
        Rule{"PresetUnknown", "model { llama { preset: 9 } }", "model.llama.preset"},
        Rule{"DimNegative", "model { llama { dim: -1 } }", "model.llama.dim"},
        Rule{"DimTooWide", "model { llama { dim: 4294967296 } }", "model.llama.dim"},
        Rule{"LayersNegative", "model { llama { layers: -1 } }", "model.llama.layers"},
        Rule{"HeadsNegative", "model { llama { heads: -1 } }", "model.llama.heads"},
        Rule{"HeadsNoDivisor", "model { llama { dim: 250 } }", "model.llama.heads"},
        Rule{"HeadWidthOdd", "model { llama { dim: 240 } }", "model.llama.heads"},
        Rule{"KvHeadsNegative", "model { llama { kv_heads: -1 } }", "model.llama.kv_heads"},
        Rule{"KvHeadsNoDivisor", "model { llama { kv_heads: 3 } }", "model.llama.kv_heads"},
        Rule{"KvHeadsAbove", "model { llama { heads: 8 } }", "model.llama.kv_heads"},
        Rule{"KvHeadsOne", "model { llama { kv_heads: 1 } }", ""},
        Rule{"FfnNegative", "model { llama { ffn_dim: -1 } }", "model.llama.ffn_dim"},
        Rule{"VocabularyNegative", "model { llama { vocab_size: -1 } }", "model.llama.vocab_size"},
        Rule{"ThetaNegative", "model { llama { rope_theta: -1 } }", "model.llama.rope_theta"},
        Rule{"ThetaNan", "model { llama { rope_theta: nan } }", "model.llama.rope_theta"},
        Rule{"NormNegative", "model { llama { norm_epsilon: -1 } }", "model.llama.norm_epsilon"},
        Rule{"TorchScript", "model { torchscript { file: '/m.pt' } }", ""},
        Rule{"TorchScriptNoFile", "model { torchscript {} }", "model.torchscript.file"},
        Rule{"SequenceNegative", "data { sequence_length: -1 }", "data.sequence_length"},
        Rule{"SequenceTooLong", "data { sequence_length: 4294967296 }", "data.sequence_length"},
        Rule{"TokenTypeKnown", "data { token_type: TOKEN_TYPE_UINT16 }", ""},
        Rule{"TokenTypeUnknown", "data { token_type: 3 }", "data.token_type"},
        Rule{"NoPrefetchThread", "data { prefetch_threads: 0 }", ""},
        Rule{"PrefetchThreadsNegative", "data { prefetch_threads: -1 }", "data.prefetch_threads"},
        Rule{"PrefetchThreadsMany", "data { prefetch_threads: 65 }", "data.prefetch_threads"},
        Rule{"PrefetchNegative", "data { prefetch_batches: -1 }", "data.prefetch_batches"}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    Paths, JobSpecRuleTest,
    ::testing::Values(
        Rule{"TrainRelative", "data { train: 'train.shard' }", "data.train"},
        Rule{"TrainGoesUp", "data { train: '/data/../etc/passwd' }", "data.train"},
        Rule{"TrainEndsUp", "data { train: '/data/..' }", "data.train"},
        Rule{"DotsInAName", "data { train: '/data/..train..' }", ""},
        Rule{"EvalRelative", "data { eval: 'e' }", "data.eval"},
        Rule{"EvalWithAZero", "data { eval: '/e\\000f' }", "data.eval"},
        Rule{"InitRelative", "init_from: 'a/b'", "init_from"},
        Rule{"ModuleGoesUp", "model { torchscript { file: '/../m' } }", "model.torchscript.file"},
        Rule{"ExportGoesUp", "export_final: '/../a.safetensors'", "export_final"},
        Rule{"DirectoryGoesUp", "checkpoint { directory: '/c/..' }", "checkpoint.directory"},
        Rule{"DirectoryWithASlash", "checkpoint { directory: '/c/' }", ""},
        Rule{"ResumeNamed", "resume_from: 'job/step'", ""},
        Rule{"ResumeGoesUp", "resume_from: '/c/../step-1'", "resume_from"},
        Rule{"PathLongest", "init_from: '/" + std::string(4094, 'a') + "'", ""},
        Rule{"PathTooLong", "init_from: '/" + std::string(4095, 'a') + "'", "init_from"}),
    Name);

TEST(JobSpecTest, PathInAMessageIsEscapedAndCut) {
  v1::JobSpec spec = Sound();
  spec.mutable_data()->set_train("a\x1b" + std::string(4000, 'z'));
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("\"a\\x1bzz"));
  EXPECT_LT(CheckJobSpec(spec).at(0).message.size(), 400U);
}

TEST(JobSpecTest, APathByItselfObeysTheSameRules) {
  EXPECT_THAT(CheckNodePath("/c/step-1", "from"), IsEmpty());
  EXPECT_THAT(CheckNodePath("", "from"), IsEmpty());
  EXPECT_EQ(CheckNodePath("/c/../step-1", "from").at(0).field, "from");
  EXPECT_EQ(CheckNodePath("c/step-1", "from").size(), 1);
  EXPECT_EQ(CheckNodePath("/" + std::string(4095, 'a'), "from").size(), 1);
}

TEST(JobSpecTest, EmptySpecNamesEverythingThatIsRequired) {
  EXPECT_THAT(Fields(v1::JobSpec()), ElementsAre("name", "model.kind", "data.train", "steps",
                                                 "optimizer.kind", "optimizer.learning_rate"));
}

TEST(JobSpecTest, AllProblemsAreToldAtOnce) {
  v1::JobSpec spec = Sound();
  spec.set_ranks(5000);
  spec.set_seed(-4);
  spec.mutable_optimizer()->set_learning_rate(-1);
  EXPECT_THAT(Fields(spec), ElementsAre("ranks", "optimizer.learning_rate", "seed"));
}

TEST(JobSpecTest, MessageSaysWhichValueAndWhatIsAllowed) {
  v1::JobSpec spec = Sound();
  spec.set_ranks(5000);
  EXPECT_EQ(CheckJobSpec(spec).at(0).message, "is 5000; allowed is 1 to 4096");
}

TEST(JobSpecTest, NameInAMessageIsEscaped) {
  v1::JobSpec spec = Sound();
  spec.set_name("a\x1b[2J");
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("\"a\\x1b[2J\""));
}

TEST(JobSpecTest, NameInAMessageKeepsItsLettersWhole) {
  v1::JobSpec spec = Sound();
  spec.set_name("g\u00fctes");
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("\"g\u00fctes\""));
  // The 80th byte is the first half of a letter.
  spec.set_name(std::string(79, 'a') + "\u00fc" + "a");
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr(std::string(79, 'a') + "\""));
}

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
  EXPECT_THAT(Fields(Session("gradient_format: WIRE_FORMAT_INT8")), ElementsAre("gradient_format"));
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
