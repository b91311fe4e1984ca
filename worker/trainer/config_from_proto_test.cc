#include "worker/trainer/config_from_proto.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace paceline {
namespace {

v1::TrainerConfig Parse(const std::string& text) {
  v1::TrainerConfig proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return proto;
}

constexpr char kWhole[] = R"(
  id { job_id: "job-0123456789ab" generation: 3 rank: 1 }
  world_size: 2 place: 1 threads: 4 interface: "lo"
  spec {
    name: "a" ranks: 2 device: CUDA
    model { mlp { hidden: 7 hidden: 9 } }
    data { train: "/train" eval: "/eval" order: SEQUENTIAL }
    batch_per_rank: 5 steps: 100
    optimizer { adamw { beta1: 0.8 beta2: 0.99 epsilon: 1e-6 } learning_rate: 0.5 weight_decay: 0.1 }
    schedule { warmup_steps: 10 step { every: 20 gamma: 0.3 } }
    seed: 6 precision: BF16 evaluation { every: 50 } checkpoint { directory: "/out" }
    init_from: "/weights" log_every: 3 collective_timeout_s: 1.5
    faults { rank: 0 step: 1 kind: THROW }
    faults { rank: 1 step: 2 kind: SLEEP seconds: 0.25 }
  })";

TEST(ConfigFromProtoTest, EveryValueArrives) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kWhole));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->id.job.value(), "job-0123456789ab");
  EXPECT_EQ(config->id.generation.value(), 3);
  EXPECT_EQ(config->rank(), 1);
  EXPECT_EQ(config->world_size, 2);
  EXPECT_EQ(config->place, 1);
  EXPECT_EQ(config->threads, 4);
  EXPECT_EQ(config->interface, "lo");
  EXPECT_TRUE(config->cuda);
  EXPECT_TRUE(config->bf16);
  EXPECT_EQ(config->model.kind, ModelConfig::Kind::kMlp);
  EXPECT_EQ(config->model.hidden, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(config->train_data, "/train");
  EXPECT_EQ(config->eval_data, "/eval");
  EXPECT_FALSE(config->shuffle);
  EXPECT_EQ(config->batch, 5);
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
  EXPECT_EQ(config->seed, 6u);
  EXPECT_EQ(config->eval_every, 50);
  EXPECT_EQ(config->checkpoint_directory, "/out");
  EXPECT_EQ(config->init_from, "/weights");
  EXPECT_EQ(config->log_every, 3);
  EXPECT_EQ(config->collective_timeout, absl::Milliseconds(1500));
}

TEST(ConfigFromProtoTest, OnlyTheOwnFaultsAreKept) {
  const absl::StatusOr<TrainerConfig> config = ConfigFromProto(Parse(kWhole));
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->faults.size(), 1u);
  EXPECT_EQ(config->faults[0].kind, FaultConfig::Kind::kSleep);
  EXPECT_EQ(config->faults[0].step, 2);
  EXPECT_EQ(config->faults[0].duration, absl::Milliseconds(250));
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
  EXPECT_EQ(config->batch, 32);
  EXPECT_TRUE(config->shuffle);
  EXPECT_FALSE(config->cuda);
  EXPECT_FALSE(config->bf16);
  EXPECT_EQ(config->optimizer.kind, OptimizerConfig::Kind::kSgd);
  EXPECT_EQ(config->optimizer.momentum, 0.9);
  EXPECT_TRUE(config->optimizer.nesterov);
  EXPECT_EQ(config->schedule.kind, LrSchedule::Kind::kConstant);
  EXPECT_EQ(config->log_every, 10);
  EXPECT_EQ(config->collective_timeout, absl::Seconds(300));
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

TEST(ConfigFromProtoTest, RankOutsideTheWorldIsRefused) {
  v1::TrainerConfig proto = Parse(kWhole);
  proto.mutable_id()->set_rank(2);
  EXPECT_EQ(ConfigFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
