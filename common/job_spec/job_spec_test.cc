#include "common/job_spec/job_spec.h"

#include <ostream>
#include <string>
#include <utility>

#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
        Rule{"GradientsInt8", "gradient_format: WIRE_FORMAT_INT8", ""},
        Rule{"GradientsFp8", "gradient_format: WIRE_FORMAT_FP8", ""},
        Rule{"GradientsInt4", "gradient_format: WIRE_FORMAT_INT4", "gradient_format"},
        Rule{"GradientsUnknown", "gradient_format: 9", "gradient_format"},
        Rule{"StartupJustLong", "collective_timeout_s: 10 startup_timeout_s: 30", ""},
        Rule{"StartupShort", "collective_timeout_s: 10 startup_timeout_s: 29", "startup_timeout_s"},
        Rule{"StartupNan", "startup_timeout_s: nan", "startup_timeout_s"},
        Rule{"StartupInfinite", "startup_timeout_s: inf", "startup_timeout_s"},
        Rule{"PeakNegative", "peak_flops: -1", "peak_flops"},
        Rule{"PeakInfinite", "peak_flops: inf", "peak_flops"},
        Rule{"FlopsNegative", "flops_per_sample: -1", "flops_per_sample"},
        Rule{"FlopsNan", "flops_per_sample: nan", "flops_per_sample"},
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
             "cuda_graph: true device: CUDA model { mlp {} } accumulation_steps: 2", ""}),
    Name);

INSTANTIATE_TEST_SUITE_P(
    ModelsAndData, JobSpecRuleTest,
    ::testing::Values(
        Rule{"Resnet18", "model { resnet18 { sync_batchnorm: true } }", ""},
        Rule{"SyncBatchnormLocal",
             "model { resnet18 { sync_batchnorm: true } } strategy { local_sgd { period: 4 } }",
             "model.resnet18.sync_batchnorm"},
        Rule{"SyncBatchnormGroups",
             "model { resnet18 { sync_batchnorm: true } } ranks: 4 strategy { hsgd { ladder { "
             "period: 4 size: 4 } } gradient_group_size: 2 }",
             ""},
        Rule{"SyncBatchnormGroupsOfOne",
             "model { resnet18 { sync_batchnorm: true } } ranks: 4 strategy { hsgd { ladder { "
             "period: 4 size: 4 } } gradient_group_size: 1 }",
             "model.resnet18.sync_batchnorm"},
        Rule{"KeepLast", "data { drop_last: false }", ""},
        Rule{"KeepLastLocal", "data { drop_last: false } strategy { local_sgd { period: 4 } }",
             "data.drop_last"},
        Rule{"KeepLastTorchScript",
             "data { drop_last: false } model { torchscript { file: '/m.pt' } }", "data.drop_last"},
        Rule{"KeepLastGraph",
             "data { drop_last: false } cuda_graph: true device: CUDA model { mlp {} }",
             "data.drop_last"},
        Rule{"KeepLastCompiled", "data { drop_last: false } model { compiled { file: '/m.pt2' } }",
             "data.drop_last"},
        Rule{"KeepLastShards", "data { drop_last: false } ranks: 4 shards: 2 model { llama {} }",
             "data.drop_last"},
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
        Rule{"Compiled", "model { compiled { file: '/m.pt2' } }", ""},
        Rule{"CompiledNoFile", "model { compiled {} }", "model.compiled.file"},
        Rule{"CompiledOtherFile", "model { compiled { file: '/m.pt' } }", "model.compiled.file"},
        Rule{"CompiledBf16", "model { compiled { file: '/m.pt2' } } precision: BF16", "precision"},
        Rule{"CompiledCuda", "model { compiled { file: '/m.pt2' } } device: CUDA", "device"},
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

constexpr char kHash[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";

TEST(JobSpecTest, OneRankThatNeedsNoViewOfAllGradientsUpdatesInTheBackwardPass) {
  const auto updates = [](const std::string& change) {
    v1::JobSpec spec = Sound();
    spec.set_on_nonfinite(v1::NON_FINITE_IGNORE);
    v1::JobSpec more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &more)) << change;
    spec.MergeFrom(more);
    FillDefaults(&spec);
    return UpdatesInBackward(spec);
  };
  for (const char* change :
       {"", "model { llama {} }", "model { mlp {} }", "precision: BF16", "strategy { ddp {} }"}) {
    EXPECT_TRUE(updates(change)) << change;
  }
  for (const char* change :
       {"ranks: 2", "accumulation_steps: 2", "clip_grad_norm: 1", "on_nonfinite: NON_FINITE_SKIP",
        "on_nonfinite: NON_FINITE_STOP", "recovery { max_failures: 1 }",
        "recovery { max_failures: 1 max_ranks: 4 }", "strategy { slipstream {} }",
        "strategy { local_sgd {} }", "strategy { auto {} }",
        "model { torchscript { file: '/m.pt' } }", "model { compiled { file: '/m.pt2' } }",
        "device: CUDA"}) {
    EXPECT_FALSE(updates(change)) << change;
  }
}

TEST(JobSpecTest, RulesOfSeveralSources) {
  const std::string hash = kHash;
  const std::pair<std::string, std::string> rules[] = {
      {"sources { path: '/a' }", ""},
      {"sources { path: '/a' } sources { path: '/b' }", ""},
      {"sources { path: '/a' weight: 7 } sources { path: '/b' weight: 0.1 }", ""},
      {"sources { path: 'a' }", "data.sources[0].path"},
      {"sources { path: 's3://b/k' } eval: 'https://host/k'", ""},
      {"sources { path: 's3://b' }", "data.sources[0].path"},
      {"train: 'https://host/k?token=1'", "data.train"},
      {"sources { weight: 1 }", "data.sources[0].path"},
      {"sources { path: '/a' } sources { path: '/a' }", "data.sources[1].path"},
      {"train: '/t' sources { path: '/a' }", "data.sources"},
      {"sources { path: '/a' weight: 1 } sources { path: '/b' }", "data.sources[1].weight"},
      {"sources { path: '/a' weight: -1 }", "data.sources[0].weight"},
      {"sources { path: '/a' weight: nan }", "data.sources[0].weight"},
      {"sources { path: '/a' weight: 1 } sources { path: '/b' weight: 9e-7 }",
       "data.sources[1].weight"},
      {"sources { path: '/a' } drop_last: false", ""},
      {"sources { path: '/a' weight: 1 } drop_last: false", "data.drop_last"},
      {"train: '/t' train_hash: '" + hash + "'", ""},
      {"train: '/t' train_hash: '9f86'", "data.train_hash"},
      {"sources { path: '/a' } train_hash: '" + hash + "'", "data.train_hash"},
      {"sources { path: '/a' hash: '" + hash + "' }", ""},
      {"sources { path: '/a' hash: '" + std::string(48, 'g') + "' }", "data.sources[0].hash"},
  };
  for (const auto& [data, broken] : rules) {
    v1::JobSpec spec = Sound();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(data, spec.mutable_data())) << data;
    if (broken.empty()) {
      EXPECT_THAT(Fields(spec), IsEmpty()) << data;
    } else {
      EXPECT_THAT(Fields(spec), ElementsAre(broken)) << data;
    }
  }
}

TEST(JobSpecTest, OnlySoManySources) {
  v1::JobSpec spec = Sound();
  spec.mutable_data()->clear_train();
  for (int i = 0; i < 256; ++i) {
    spec.mutable_data()->add_sources()->set_path("/data/" + std::to_string(i));
  }
  EXPECT_THAT(Fields(spec), IsEmpty());
  spec.mutable_data()->add_sources()->set_path("/data/more");
  EXPECT_THAT(Fields(spec), ElementsAre("data.sources"));
}

TEST(JobSpecTest, PathInAMessageIsEscapedAndCut) {
  v1::JobSpec spec = Sound();
  spec.mutable_data()->set_train("a\x1b" + std::string(4000, 'z'));
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("\"a\\x1bzz"));
  EXPECT_LT(CheckJobSpec(spec).at(0).message.size(), 400U);
}

TEST(JobSpecTest, SecretsInAnAddressAreNotRepeated) {
  v1::JobSpec spec = Sound();
  spec.mutable_data()->set_train("https://user:secret@host/k");
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("credentials belong to the node"));
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, Not(HasSubstr("secret")));
  spec = Sound();
  spec.set_init_from("https://user:secret@host/weights");
  EXPECT_THAT(Fields(spec), ElementsAre("init_from"));
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, HasSubstr("only the files of data.train"));
  EXPECT_THAT(CheckJobSpec(spec).at(0).message, Not(HasSubstr("secret")));
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

}  // namespace
}  // namespace paceline
