#include "worker/trainer/loop/built_in_workload.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/image_shard/image_shard.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/step_graph.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/object_store/testing/object_server.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {
namespace {

// Objects are fetched in blocks of 4 MiB.
constexpr char kSecondBlock[] = "bytes=4194304-";
constexpr char kThirdBlock[] = "bytes=8388608-";

bool AsksFor(const ObjectServer::Request& request, absl::string_view range) {
  const auto found = request.headers.find("range");
  return found != request.headers.end() && absl::StartsWith(found->second, range);
}

void WaitForRequest(const ObjectServer& server, absl::string_view range) {
  const auto has_come = [&] {
    const std::vector<ObjectServer::Request> requests = server.requests();
    return std::any_of(requests.begin(), requests.end(),
                       [&](const ObjectServer::Request& one) { return AsksFor(one, range); });
  };
  while (!has_come()) absl::SleepFor(absl::Milliseconds(1));
}

// An image shard of three blocks and a bit, of 1024 images each.
std::string Shard() {
  constexpr uint32_t kSide = 64;
  constexpr size_t kImages = 3072;
  const std::string path = testing::TempDir() + "/workload.shard";
  EXPECT_TRUE(WriteImageShard(path, {1, kSide, kSide, 10}, std::vector<uint32_t>(kImages, 1),
                              std::vector<uint8_t>(kImages * kSide * kSide, 7))
                  .ok());
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class NoTimer : public StepTimer {
 public:
  void ShowEvaluation(int64_t /*steps*/, int64_t /*done*/, int64_t /*all*/) override {}
  void EndStep(const StepResult& /*result*/) override {}
  std::vector<StepRecord> TakeFinished() override { return {}; }
  void Flush() override {}

 private:
  void DoEnter(Phase /*phase*/, int64_t /*step*/) override {}
};

// Runs every step, as real graphs do before they record one.
class EagerGraph : public StepGraph {
 public:
  void Run(const std::function<void()>& step) override { step(); }
  bool recorded() const override { return false; }
};

class GraphPlatform : public CpuPlatform {
 public:
  std::unique_ptr<StepGraph> MakeStepGraph() override { return std::make_unique<EagerGraph>(); }
};

struct Trained {
  std::vector<StepResult> steps;
  std::vector<at::Tensor> parameters;
};

// Three steps of a rank that is alone.
void Train(const TrainerConfig& config, Platform& platform, Trained& trained) {
  at::manual_seed(1);
  BuiltInWorkload workload(config, platform);
  const absl::Status opened = workload.Open(at::kCPU);
  ASSERT_TRUE(opened.ok()) << opened;
  NoTimer timer;
  LocalStep step({config, workload.model(), timer, [] {}},
                 {[] {}, [](bool /*last*/) {},
                  [](const at::Tensor& loss, const std::function<void()>& on_computed) {
                    loss.backward();
                    on_computed();
                  },
                  [] {}});
  workload.OpenData(config.member, {});
  trained.steps.resize(3);
  for (size_t i = 0; i < trained.steps.size(); ++i) {
    StepOrder order;
    order.number = static_cast<int64_t>(i);
    order.learning_rate = 0.1;
    step.Begin({order.number, order.number, order.learning_rate, config.member.accumulation_steps},
               &trained.steps[i]);
    const absl::Status made = workload.MakeStep(order, step);
    ASSERT_TRUE(made.ok()) << made;
  }
  for (const NamedTensor& parameter : workload.model().parameters()) {
    trained.parameters.push_back(parameter.tensor.detach().clone());
  }
}

TEST(BuiltInWorkloadTest, AGraphMakesTheStepOfAllItsPasses) {
  const std::string path = testing::TempDir() + "/graph.shard";
  std::vector<uint8_t> pixels(24 * 4 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 251);
  std::vector<uint32_t> labels(24);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 10;
  ASSERT_TRUE(WriteImageShard(path, {1, 4, 4, 10}, labels, pixels).ok());
  TrainerConfig config;
  config.member.batch = 2;
  config.member.accumulation_steps = 3;
  config.model.kind = ModelConfig::Kind::kMlp;
  config.model.hidden = {8};
  config.data.train = path;
  config.clip_grad_norm = 0.5;
  CpuPlatform cpu;
  GraphPlatform platform;
  Trained eager, graph;
  ASSERT_NO_FATAL_FAILURE(Train(config, cpu, eager));
  config.cuda_graph = true;
  ASSERT_NO_FATAL_FAILURE(Train(config, platform, graph));
  for (size_t i = 0; i < eager.steps.size(); ++i) {
    EXPECT_EQ(graph.steps[i].samples, 6) << i;
    EXPECT_EQ(graph.steps[i].samples, eager.steps[i].samples) << i;
    EXPECT_TRUE(at::equal(graph.steps[i].loss, eager.steps[i].loss)) << i;
    EXPECT_TRUE(at::equal(graph.steps[i].grad_norm, eager.steps[i].grad_norm)) << i;
  }
  ASSERT_EQ(graph.parameters.size(), eager.parameters.size());
  for (size_t i = 0; i < eager.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(graph.parameters[i], eager.parameters[i])) << i;
  }
}

// After a recovery, a rank that was behind takes data as another member once it has caught up.
TEST(BuiltInWorkloadTest, TheEndOfALoaderDoesNotCutOffTheReadsOfTheNext) {
  absl::Notification goes_on;
  ObjectServer server;
  server.Put("/shard", Shard());
  TrainerConfig config;
  config.member.batch = 4;
  config.model.kind = ModelConfig::Kind::kMlp;
  config.model.hidden = {4};
  config.data.train = server.url() + "/shard";
  config.data.shuffle = false;
  config.data.object_stores.allowed = {server.url()};
  CpuPlatform platform;
  BuiltInWorkload workload(config, platform);
  const absl::Status opened = workload.Open(at::kCPU);
  ASSERT_TRUE(opened.ok()) << opened;
  server.SetFault([&](const ObjectServer::Request& request, int) -> std::optional<std::string> {
    if (AsksFor(request, kSecondBlock)) goes_on.WaitForNotification();
    return std::nullopt;
  });
  workload.OpenData(config.member, {0, 1100});
  WaitForRequest(server, kSecondBlock);
  Member caught_up = config.member;
  caught_up.generation = 2;
  workload.OpenData(caught_up, {0, 2148});
  goes_on.Notify();
  // Of a loader whose reads were cut off, this would never come.
  WaitForRequest(server, kThirdBlock);
}

}  // namespace
}  // namespace paceline
