#include <string>

#include "cli/job_file/job_file.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

constexpr char kStart[] = "name: digits\nsteps: 100\n";

TEST(SpecAsJobFileTest, ReadsBackAsTheSameSpec) {
  for (const char* more : {
           R"(model: resnet18
data: {train: train.shard, eval: /abs/test.shard}
optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0.9, nesterov: true}
)",
           R"(model: {kind: mlp, hidden: [3, 4]}
data: {train: t}
optimizer: {kind: adamw, learning_rate: 0.1, beta1: 0}
schedule: {kind: cosine, final_ratio: 0.1}
threads_per_rank: 2
queue: research
priority: -5
placement: {labels: {kind: new, "zone 1": "7"}, nodes: [a, "b c"], exclude_nodes: [d], tolerate: [old, team=x],
            same: rack, ranks_per_node: 1, replica: require}
)",
           R"(model: {kind: resnet18, sync_batchnorm: true}
data: {train: t, drop_last: false}
optimizer: {kind: sgd, learning_rate: 0.1}
allow_chaos: true
chaos: [{kind: sleep, seconds: 0.30000000000000004}, {kind: exit, step: 3, rank: -1},
         {kind: nan_loss, steps: 5, probability: 0.5}, {kind: slow, factor: 1.5, node: dev-2}]
stragglers: {mode: auto}
init_from: 'odd: "name" # here'
checkpoint: {directory: /c, auto_interval: true, at_end: false, keep_latest: 0, when_busy: wait,
             write_limit_mb_s: 0.1, on_damage: previous}
max_restarts: 3
)",
           R"(ranks: 8
model: {kind: llama, preset: 1b, kv_heads: 4, tie_embeddings: false}
optimizer: {kind: adamw, learning_rate: 0.1}
data: {train: t, sequence_length: 64, token_type: uint32, prefetch_threads: 0}
strategy:
  kind: hsgd
  warmup_steps: 3
  gradient_group_size: 2
  optimizer_state: average
  ladder:
    - {period: 2, size: 2}
    - {period: 4, level: node, format: int8}
    - {period: 8, level: all, format: int8, outer: {kind: nesterov, learning_rate: 0.5}}
)",
           R"(ranks: 2
model: {kind: torchscript, file: m.pt}
data: {train: t, order: sequential}
optimizer: {kind: sgd, learning_rate: 0.1}
strategy: {kind: local_sgd, period: 6, outer: {kind: slowmo, momentum: 0}}
accumulation_steps: 3
clip_grad_norm: 0.1
on_nonfinite: ignore
gradient_format: bf16
export_final: o.safetensors
startup_timeout_s: 1000
peak_flops: 1e12
flops_per_sample: 2.5e9
count_flops: false
)",
           R"(model: {kind: compiled, file: m.pt2}
data: {train: t}
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(model: llama
data: {train: t}
resume_from: job/3
checkpoint: {directory: c, every_s: 0.1}
device: cuda
cuda_graph: true
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(model: resnet18
data: {train: t}
strategy: {kind: slipstream, mode: pause, optimizer_state: average, window: {min_steps: 3}}
optimizer: {kind: adamw, learning_rate: 0.1}
)",
           R"(model: resnet18
data: {train: t}
strategy: {kind: hsgd}
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(model: {kind: llama}
data:
  train:
    - {path: web.tokens, weight: 0.7, hash: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c}
    - {path: /abs/code.tokens, weight: 3}
  sequence_length: 64
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(model: {kind: llama}
data: {train: [{path: a}, {path: b}]}
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(model: {kind: llama}
data: {train: a, train_hash: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c}
optimizer: {kind: sgd, learning_rate: 0.1}
)",
           R"(command: [python3, train.py]
environment: {A: b}
session: true
batch_per_rank: 8
strategy: slipstream
recovery: {max_failures: 2, spares: 1}
checkpoint: {directory: c, every_steps: 10}
)",
           R"(command: [python3, train.py]
session: true
ranks: 8
shards: 2
strategy: {kind: hsgd, ladder: [{period: 2, size: 4}]}
recovery: {max_failures: 2, min_ranks: 4}
)"}) {
    const JobFile first = ParseJobFile(std::string(kStart) + more, "/jobs");
    for (const FileProblem& problem : first.problems) ADD_FAILURE() << problem.message;
    for (const ShownKeys shown : {ShownKeys::kAll, ShownKeys::kGiven}) {
      const std::string text = SpecAsJobFile(first.spec, shown);
      const JobFile second = ParseJobFile(text, "/elsewhere");
      for (const FileProblem& problem : second.problems) ADD_FAILURE() << problem.message;
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(first.spec, second.spec))
          << text;
    }
  }
}

TEST(SpecAsJobFileTest, SaysEveryValueThatCountsAndNoOther) {
  const JobFile file = ParseJobFile(
      std::string(kStart) +
          "data: {train: t}\nmodel: resnet18\noptimizer: {kind: sgd, learning_rate: 1}\n"
          "strategy: {kind: hsgd, ladder: [{period: 2, level: all}]}\n",
      "/jobs");
  EXPECT_THAT(file.problems, ::testing::IsEmpty());
  const std::string text = SpecAsJobFile(file.spec);
  EXPECT_THAT(text,
              ::testing::HasSubstr("    - period: 2\n      level: all\n      format: fp32\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("startup_timeout_s: 900\n"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("token_type")));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("unspecified")));
}

TEST(SpecAsJobFileTest, DefaultsThatDependOnOtherKeysAreLeftOutToo) {
  const JobFile file = ParseJobFile(std::string(kStart) +
                                        "data: {train: t}\nmodel: resnet18\nstrategy: auto\n"
                                        "optimizer: {kind: sgd, learning_rate: 1}\n",
                                    "/jobs");
  EXPECT_THAT(file.problems, ::testing::IsEmpty());
  EXPECT_EQ(SpecAsJobFile(file.spec, ShownKeys::kGiven),
            "name: digits\nmodel:\n  kind: resnet18\ndata:\n  train: /jobs/t\nsteps: 100\n"
            "optimizer:\n  kind: sgd\n  learning_rate: 1\nstrategy:\n  kind: auto\n");
}

TEST(SpecAsJobFileTest, WhatIsGivenIsWhatDiffersFromTheDefaults) {
  const JobFile file =
      ParseJobFile(std::string(kStart) +
                       "data: {train: t, prefetch_threads: 1}\nmodel: resnet18\nseed: 7\n"
                       "optimizer: {kind: sgd, learning_rate: 1, momentum: 0.9}\n",
                   "/jobs");
  EXPECT_THAT(file.problems, ::testing::IsEmpty());
  const std::string text = SpecAsJobFile(file.spec, ShownKeys::kGiven);
  EXPECT_THAT(text, ::testing::HasSubstr("seed: 7\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  momentum: 0.9\n"));
  for (const char* left_out :
       {"timeout", "threads_per_rank", "sync_batchnorm", "prefetch_threads", "{}"}) {
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(left_out)));
  }
}

}  // namespace
}  // namespace paceline
