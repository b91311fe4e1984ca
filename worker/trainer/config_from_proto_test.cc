#include "worker/trainer/config_from_proto.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

v1::TrainerConfig Parse(const std::string& text) {
  v1::TrainerConfig proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return proto;
}

constexpr char kWhole[] = R"(
  id { job_id: "job-0123456789ab" generation: 3 rank: 1 }
  world_size: 2 slot: 1 threads: 4 interface: "lo" restore_from: "/out/job-1/step-3.g1"
  local_rank: 1 local_world_size: 3
  spec {
    name: "a" ranks: 2 device: CUDA
    model { mlp { hidden: 7 hidden: 9 } }
    data { train: "/train" eval: "/eval" order: SEQUENTIAL sequence_length: 64 token_type: TOKEN_TYPE_UINT32
           prefetch_threads: 0 prefetch_batches: 5 }
    batch_per_rank: 5 steps: 100
    optimizer { adamw { beta1: 0.8 beta2: 0.99 epsilon: 1e-6 } learning_rate: 0.5 weight_decay: 0.1 }
    schedule { warmup_steps: 10 step { every: 20 gamma: 0.3 } }
    seed: 6 precision: BF16 evaluation { every: 50 }
    checkpoint { directory: "/out" every_steps: 12 at_end: false when_busy: WHEN_BUSY_WAIT
                 write_limit_mb_s: 1.5 sample_ledger: true }
    init_from: "/weights" log_every: 3 collective_timeout_s: 1.5
    allow_chaos: true chaos { rank: 0 step: 1 kind: THROW }
    chaos { rank: 1 step: 2 kind: SLEEP seconds: 0.25 steps: 3 probability: 0.5 }
    chaos { rank: -1 step: 4 kind: NAN_LOSS }
    strategy {
      hsgd { ladder { period: 2 size: 1 } ladder { period: 4 level: SCOPE_ALL } }
      warmup_steps: 7 optimizer_state: OPTIMIZER_STATE_AVERAGE
    }
    accumulation_steps: 4 clip_grad_norm: 0.75 on_nonfinite: NON_FINITE_SKIP
    export_final: "/final.safetensors" gradient_format: WIRE_FORMAT_BF16 startup_timeout_s: 77
    peak_flops: 1e15 flops_per_sample: 3e9 count_flops: false
  })";

constexpr char kSession[] = R"(
  id { job_id: "job-0123456789ab" generation: 1 rank: 2 }
  world_size: 2 threads: 1
  spec {
    name: "own" ranks: 2 command: "python3" command: "train.py" session: true steps: 70
    working_directory: "/home/ann" environment { key: "TOKEN" value: "secret" }
    batch_per_rank: 5 clip_grad_norm: 0.5 evaluation { every: 20 }
    recovery { max_failures: 2 spares: 1 } strategy { slipstream {} }
  })";

TEST(ConfigFromProtoTest, ASessionHasNoModelAndAllTheRest) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kSession));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->session);
  EXPECT_EQ(config->rank(), -1);
  EXPECT_EQ(config->steps, 70);
  EXPECT_EQ(config->member.batch, 5);
  EXPECT_EQ(config->member.accumulation_steps, 1);
  EXPECT_EQ(config->clip_grad_norm, 0.5);
  EXPECT_EQ(config->eval_every, 20);
  EXPECT_TRUE(config->recovery.enabled);
  EXPECT_EQ(config->strategy.kind, StrategyConfig::Kind::kSlipstream);
  EXPECT_EQ(config->collective_timeout, absl::Seconds(30));
  EXPECT_FALSE(config->model.unused_parameters);
  EXPECT_TRUE(config->data.eval.empty());
  EXPECT_TRUE(absl::StrContains(config->spec_json, "\"session\":true")) << config->spec_json;
  EXPECT_FALSE(absl::StrContains(config->spec_json, "secret")) << config->spec_json;
}

TEST(ConfigFromProtoTest, FilesOfAListArrive) {
  v1::TrainerConfig proto = Parse(kWhole);
  v1::Data* data = proto.mutable_spec()->mutable_data();
  const std::string hash(48, 'a');
  data->set_train_hash(hash);
  EXPECT_EQ(ConfigFromProto(proto)->data.train_hash, hash);
  data->clear_train();
  data->clear_train_hash();
  for (const char* path : {"/a", "/b"}) {
    v1::DataSource* source = data->add_sources();
    source->set_path(path);
    source->set_weight(0.5);
    source->set_hash(hash);
  }
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->data.sources.size(), 2U);
  EXPECT_EQ(config->data.sources[1].path, "/b");
  EXPECT_EQ(config->data.sources[1].weight, 0.5);
  EXPECT_EQ(config->data.sources[1].hash, hash);
}

// "2 x 5 4 x 5": with 2 ranks and with 4 each takes 5 samples at a time.
std::string SizesText(const v1::TrainerConfig& proto) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  if (!config.ok()) return config.status().ToString();
  std::vector<std::string> sizes;
  for (const JobSize& size : config->sizes) {
    sizes.push_back(absl::StrCat(size.ranks, " x ", size.batch));
  }
  return absl::StrJoin(sizes, " ");
}

// Two ranks take 5 samples at a time, and 40 in a step.
TEST(ConfigFromProtoTest, AJobHasTheSizesThatItsBatchRuleAllows) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->clear_strategy();
  proto.mutable_spec()->clear_collective_timeout_s();
  proto.mutable_spec()->clear_startup_timeout_s();
  EXPECT_EQ(SizesText(proto), "2 x 5");
  v1::Recovery* recovery = proto.mutable_spec()->mutable_recovery();
  recovery->set_max_failures(1);
  recovery->set_max_ranks(4);
  EXPECT_EQ(SizesText(proto), "2 x 5 4 x 5");
  recovery->set_min_ranks(1);
  EXPECT_EQ(SizesText(proto), "1 x 5 2 x 5 4 x 5");
  recovery->set_max_ranks(20);
  EXPECT_EQ(SizesText(proto), "1 x 5 2 x 5 4 x 5 5 x 4 8 x 5 10 x 4 20 x 2");
  recovery->set_batch(v1::KEEP_RANK_BATCH);
  recovery->set_max_ranks(4);
  EXPECT_EQ(SizesText(proto), "1 x 5 2 x 5 3 x 5 4 x 5");
}

TEST(ConfigFromProtoTest, ASizeSaysHowManyRanksShareGradientsAtLeast) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->clear_collective_timeout_s();
  proto.mutable_spec()->clear_startup_timeout_s();
  const auto together = [&proto] {
    const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? config->sizes.back().together : -1;
  };
  v1::Strategy* strategy = proto.mutable_spec()->mutable_strategy();
  EXPECT_EQ(together(), 1) << "the ranks of a node";
  strategy->set_gradient_group_size(2);
  EXPECT_EQ(together(), 2);
  v1::Recovery* recovery = proto.mutable_spec()->mutable_recovery();
  recovery->set_max_failures(1);
  EXPECT_EQ(together(), 2) << "it always has all ranks";
  recovery->set_min_ranks(1);
  EXPECT_EQ(together(), 1) << "the other one of the group may be missing";
  recovery->clear_min_ranks();
  recovery->set_max_ranks(4);
  EXPECT_EQ(together(), 1);
  proto.mutable_spec()->clear_strategy();
  EXPECT_EQ(together(), 0);
}

TEST(ConfigFromProtoTest, EveryValueOfWhatItTrainsArrives) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kWhole));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->id.job.value(), "job-0123456789ab");
  EXPECT_EQ(config->id.generation.value(), 3);
  EXPECT_EQ(config->rank(), 1);
  EXPECT_EQ(config->member.world_size, 2);
  EXPECT_EQ(config->slot, 1);
  EXPECT_EQ(config->threads, 4);
  EXPECT_EQ(config->interface, "lo");
  EXPECT_TRUE(config->cuda);
  EXPECT_TRUE(config->bf16);
  EXPECT_FALSE(config->session);
  EXPECT_EQ(config->model.kind, ModelConfig::Kind::kMlp);
  EXPECT_EQ(config->model.hidden, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(config->data.train, "/train");
  EXPECT_EQ(config->data.eval, "/eval");
  EXPECT_FALSE(config->data.shuffle);
  EXPECT_EQ(config->data.sequence_length, 64);
  EXPECT_EQ(config->data.token_type, DataConfig::TokenType::kUint32);
  EXPECT_EQ(config->data.prefetch_threads, 0);
  EXPECT_EQ(config->data.prefetch_batches, 5);
  EXPECT_EQ(config->member.batch, 5);
  EXPECT_EQ(config->member.accumulation_steps, 4);
  EXPECT_EQ(config->steps, 100);
  EXPECT_EQ(config->optimizer.kind, OptimizerConfig::Kind::kAdamW);
  EXPECT_EQ(config->optimizer.beta1, 0.8);
  EXPECT_EQ(config->optimizer.beta2, 0.99);
  EXPECT_EQ(config->optimizer.epsilon, 1e-6);
  EXPECT_EQ(config->optimizer.weight_decay, 0.1);
  EXPECT_EQ(config->schedule.kind, LrSchedule::Kind::kStep);
  EXPECT_EQ(config->schedule.peak, 0.5);
  EXPECT_EQ(config->schedule.steps, 100);
  EXPECT_EQ(config->schedule.warmup_steps, 10);
  EXPECT_EQ(config->schedule.every, 20);
  EXPECT_EQ(config->schedule.gamma, 0.3);
}

TEST(ConfigFromProtoTest, EveryValueOfHowItTrainsArrives) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kWhole));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->strategy.kind, StrategyConfig::Kind::kHsgd);
  EXPECT_EQ(config->strategy.warmup_steps, 7);
  EXPECT_TRUE(config->strategy.average_optimizer_state);
  EXPECT_EQ(config->gradient_format, WireFormat::kBf16);
  EXPECT_EQ(config->clip_grad_norm, 0.75);
  EXPECT_EQ(config->on_nonfinite, NonFinite::kSkip);
  EXPECT_EQ(config->seed, 6u);
  EXPECT_EQ(config->eval_every, 50);
  EXPECT_EQ(config->checkpoint.directory, "/out");
  EXPECT_EQ(config->checkpoint.every_steps, 12);
  EXPECT_TRUE(config->checkpoint.expected);
  EXPECT_FALSE(config->checkpoint.at_end);
  EXPECT_TRUE(config->checkpoint.wait_when_busy);
  EXPECT_EQ(config->checkpoint.write_limit, 1.5e6);
  EXPECT_TRUE(config->checkpoint.sample_ledger);
  EXPECT_EQ(config->restore_from, "/out/job-1/step-3.g1");
  EXPECT_EQ(config->local_rank, 1);
  EXPECT_EQ(config->local_world_size, 3);
  EXPECT_EQ(config->init_from, "/weights");
  EXPECT_EQ(config->export_final, "/final.safetensors");
  EXPECT_EQ(config->startup_timeout, absl::Seconds(77));
  EXPECT_EQ(config->peak_flops, 1e15);
  EXPECT_EQ(config->flops_per_sample, 3e9);
  EXPECT_FALSE(config->count_flops);
  EXPECT_FALSE(config->cuda_graph);
  EXPECT_FALSE(config->updates_in_backward);
  EXPECT_EQ(config->log_every, 3);
  EXPECT_EQ(config->collective_timeout, absl::Milliseconds(1500));
}

TEST(ConfigFromProtoTest, FaultsKeepWhomTheyConcern) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kWhole));
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->chaos.size(), 3u);
  EXPECT_EQ(config->chaos[0].rank, 0);
  EXPECT_EQ(config->chaos[1].kind, FaultConfig::Kind::kSleep);
  EXPECT_EQ(config->chaos[1].step, 2);
  EXPECT_EQ(config->chaos[1].steps, 3);
  EXPECT_EQ(config->chaos[1].probability, 0.5);
  EXPECT_EQ(config->chaos[1].duration, absl::Milliseconds(250));
  EXPECT_EQ(config->chaos[2].kind, FaultConfig::Kind::kNanLoss);
  EXPECT_EQ(config->chaos[2].steps, 1);
  EXPECT_EQ(config->chaos[2].probability, 1);
}

TEST(ConfigFromProtoTest, ASpareIsNoRank) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_id()->set_rank(2);
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->id.rank.value(), 2);
  EXPECT_EQ(config->rank(), -1);
}

TEST(ConfigFromProtoTest, SavesAreExpectedForAnyReason) {
  for (const char* reason : {"every_steps: 2", "every_s: 0.5", "auto_interval: true"}) {
    v1::TrainerConfig proto = Parse(kWhole);
    v1::JobSpec* spec = proto.mutable_spec();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("directory: '/out' ", reason), spec->mutable_checkpoint()));
    EXPECT_TRUE(ConfigFromProto(proto)->checkpoint.expected) << reason;
    EXPECT_TRUE(ConfigFromProto(proto)->checkpoint.at_end) << reason;
    spec->mutable_checkpoint()->set_at_end(false);
    EXPECT_TRUE(ConfigFromProto(proto)->checkpoint.expected) << reason;
  }
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->mutable_checkpoint()->clear_every_steps();
  EXPECT_FALSE(ConfigFromProto(proto)->checkpoint.expected);
  proto.mutable_spec()->mutable_checkpoint()->set_at_end(true);
  EXPECT_TRUE(ConfigFromProto(proto)->checkpoint.expected);
}

// The record, including defaults, can be read back.
TEST(ConfigFromProtoTest, SpecIsKeptAsJson) {
  const v1::TrainerConfig proto = Parse(kWhole);
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(absl::StrContains(config->spec_json, "\"batch_per_rank\":5")) << config->spec_json;
  v1::JobSpec read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(config->spec_json, &read).ok());
  v1::JobSpec expected = proto.spec();
  FillDefaults(&expected);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(read, expected))
      << config->spec_json;
}

TEST(ConfigFromProtoTest, MissingValuesTakeTheirDefaults) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(R"(
    id { job_id: "job-0123456789ab" generation: 1 } world_size: 1 threads: 1
    spec {
      name: "a" model { resnet18 {} } data { train: "/train" } steps: 1
      optimizer { sgd { momentum: 0.9 nesterov: true } learning_rate: 0.1 }
    })"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.kind, ModelConfig::Kind::kResNet18);
  EXPECT_EQ(config->member.batch, 32);
  EXPECT_TRUE(config->data.shuffle);
  EXPECT_TRUE(config->data.drop_last);
  EXPECT_EQ(config->data.sequence_length, 256);
  EXPECT_EQ(config->data.token_type, DataConfig::TokenType::kInHeader);
  EXPECT_EQ(config->data.prefetch_threads, 1);
  EXPECT_EQ(config->data.prefetch_batches, 2);
  EXPECT_EQ(config->member.accumulation_steps, 1);
  EXPECT_EQ(config->strategy.kind, StrategyConfig::Kind::kDdp);
  EXPECT_EQ(config->gradient_format, WireFormat::kFp32);
  EXPECT_EQ(config->on_nonfinite, NonFinite::kStop);
  EXPECT_EQ(config->startup_timeout, absl::Seconds(900));
  EXPECT_FALSE(config->cuda);
  EXPECT_FALSE(config->bf16);
  EXPECT_EQ(config->optimizer.kind, OptimizerConfig::Kind::kSgd);
  EXPECT_EQ(config->optimizer.momentum, 0.9);
  EXPECT_TRUE(config->optimizer.nesterov);
  EXPECT_EQ(config->schedule.kind, LrSchedule::Kind::kConstant);
  EXPECT_EQ(config->log_every, 10);
  EXPECT_EQ(config->collective_timeout, absl::Seconds(300));
}

TEST(ConfigFromProtoTest, EachPrecisionArrives) {
  v1::TrainerConfig proto = Parse(kWhole);
  const auto read = [&proto](v1::Precision precision) {
    proto.mutable_spec()->set_precision(precision);
    const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
    EXPECT_TRUE(config.ok()) << config.status();
    return std::pair(config->bf16, config->optimizer.compensated);
  };
  EXPECT_EQ(read(v1::FP32), std::pair(false, false));
  EXPECT_EQ(read(v1::BF16), std::pair(true, false));
  EXPECT_EQ(read(v1::BF16_FULL), std::pair(true, true));
}

TEST(ConfigFromProtoTest, LlamaArrivesWithAllSizes) {
  v1::TrainerConfig proto = Parse(kWhole);
  v1::Llama* llama = proto.mutable_spec()->mutable_model()->mutable_llama();
  llama->set_preset(v1::LLAMA_PRESET_1B);
  llama->set_layers(3);
  llama->set_norm_epsilon(1e-6);
  llama->set_checkpoint_activations(true);
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.kind, ModelConfig::Kind::kLlama);
  EXPECT_EQ(config->model.llama.dim, 2048);
  EXPECT_EQ(config->model.llama.layers, 3);
  EXPECT_EQ(config->model.llama.heads, 32);
  EXPECT_EQ(config->model.llama.kv_heads, 8);
  EXPECT_EQ(config->model.llama.ffn_dim, 8192);
  EXPECT_EQ(config->model.llama.vocab_size, 128256);
  EXPECT_EQ(config->data.vocab_size, 128256);
  EXPECT_EQ(config->model.llama.rope_theta, 5e5);
  EXPECT_EQ(config->model.llama.norm_epsilon, 1e-6);
  EXPECT_TRUE(config->model.llama.tie_embeddings);
  EXPECT_TRUE(config->model.llama.checkpoint_activations);
}

TEST(ConfigFromProtoTest, SlipstreamArrives) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->clear_device();
  proto.mutable_spec()->clear_strategy();
  proto.mutable_spec()->clear_gradient_format();
  proto.mutable_spec()->mutable_strategy()->mutable_slipstream();
  proto.mutable_spec()->mutable_checkpoint()->clear_sample_ledger();
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(proto);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->strategy.kind, StrategyConfig::Kind::kSlipstream);
  EXPECT_FALSE(config->strategy.average_optimizer_state);
}

TEST(ConfigFromProtoTest, OtherModelsArrive) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->mutable_model()->mutable_torchscript()->set_file("/m.pt");
  EXPECT_EQ(ConfigFromProto(proto)->model.kind, ModelConfig::Kind::kTorchScript);
  EXPECT_EQ(ConfigFromProto(proto)->model.torchscript_file, "/m.pt");
  EXPECT_FALSE(ConfigFromProto(proto)->model.unused_parameters);
  proto.mutable_spec()->mutable_model()->mutable_torchscript()->set_unused_parameters(true);
  EXPECT_TRUE(ConfigFromProto(proto)->model.unused_parameters);
  EXPECT_FALSE(ConfigFromProto(proto)->save_nan);
  proto.mutable_spec()->set_save_nan(true);
  EXPECT_TRUE(ConfigFromProto(proto)->save_nan);
  proto.mutable_spec()->mutable_schedule()->mutable_cosine()->set_steps(70);
  EXPECT_EQ(ConfigFromProto(proto)->schedule.steps, 70);
  proto.mutable_spec()->clear_strategy();
  v1::TrainerConfig compiled = proto;
  compiled.mutable_spec()->mutable_model()->mutable_compiled()->set_file("/m.pt2");
  compiled.mutable_spec()->set_device(v1::CPU);
  compiled.mutable_spec()->set_precision(v1::FP32);
  ASSERT_TRUE(ConfigFromProto(compiled).ok()) << ConfigFromProto(compiled).status();
  EXPECT_EQ(ConfigFromProto(compiled)->model.kind, ModelConfig::Kind::kCompiled);
  EXPECT_EQ(ConfigFromProto(compiled)->model.compiled_file, "/m.pt2");
  proto.mutable_spec()->mutable_model()->mutable_resnet18()->set_sync_batchnorm(true);
  EXPECT_EQ(ConfigFromProto(proto)->model.kind, ModelConfig::Kind::kResNet18);
  EXPECT_TRUE(ConfigFromProto(proto)->model.sync_batchnorm);
  proto.mutable_spec()->mutable_data()->set_drop_last(false);
  EXPECT_FALSE(ConfigFromProto(proto)->data.drop_last);
}

TEST(ConfigFromProtoTest, AllImpossibleValuesAreNamedAtOnce) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_spec()->set_steps(-1);
  proto.mutable_spec()->mutable_optimizer()->set_learning_rate(-2);
  const absl::Status status = ConfigFromProto(proto).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "steps")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "optimizer.learning_rate")) << status;
}

TEST(ConfigFromProtoTest, AnImpossibleSlotIsRefused) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_id()->set_rank(-1);
  EXPECT_EQ(ConfigFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
