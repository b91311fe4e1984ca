#include "controller/core/schedule/spaces.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "controller/core/testing/node_facts.h"

namespace paceline {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

class LargestDeviceMemoryTest : public ::testing::Test {
 protected:
  NodeFacts& AddNode(const char* name, int slots = 1) {
    Node& node = nodes_[NodeName(name)];
    node.facts = Facts(name, slots);
    return node.facts;
  }

  void AddGpus(const char* name, std::vector<int64_t> bytes) {
    NodeFacts& facts = AddNode(name);
    facts.gpus.assign(bytes.size(), "H200");
    facts.gpu_memory_bytes = std::move(bytes);
  }

  JobRequest RequestFor(Device device) const {
    JobRequest job{JobId("job-1"), "digits", 1, device, ""};
    job.placement = policy_;
    return job;
  }
  std::optional<int64_t> Largest(Device device) const {
    return LargestDeviceMemory(RequestFor(device), nodes_);
  }

  std::map<NodeName, Node> nodes_;
  PlacementPolicy policy_;
};

TEST_F(LargestDeviceMemoryTest, ThereIsNoneWithoutNodes) {
  EXPECT_EQ(Largest(Device::kCpu), std::nullopt);
  EXPECT_EQ(Largest(Device::kCuda), std::nullopt);
}

TEST_F(LargestDeviceMemoryTest, GpusAndNodesHaveTheirOwn) {
  AddGpus("a", {80 * kGiB, 40 * kGiB});
  AddNode("b").memory_bytes = 500 * kGiB;
  nodes_.at(NodeName("a")).facts.memory_bytes = 200 * kGiB;
  EXPECT_EQ(Largest(Device::kCuda), 80 * kGiB);
  EXPECT_EQ(Largest(Device::kCpu), 500 * kGiB);
}

TEST_F(LargestDeviceMemoryTest, OfHostsThoseCountThatHaveSuchADevice) {
  AddGpus("a", {80 * kGiB});
  nodes_.at(NodeName("a")).facts.memory_bytes = 200 * kGiB;
  AddNode("b").memory_bytes = 500 * kGiB;
  EXPECT_EQ(LargestHostMemory(RequestFor(Device::kCuda), nodes_), 200 * kGiB);
  EXPECT_EQ(LargestHostMemory(RequestFor(Device::kCpu), nodes_), 500 * kGiB);
  policy_.exclude_nodes = {NodeName("a")};
  EXPECT_EQ(LargestHostMemory(RequestFor(Device::kCuda), nodes_), std::nullopt);
}

TEST_F(LargestDeviceMemoryTest, OneThatIsUnknownLeavesItOpen) {
  AddGpus("a", {80 * kGiB});
  AddGpus("b", {141 * kGiB, 0});
  EXPECT_EQ(Largest(Device::kCuda), std::nullopt);
  nodes_.at(NodeName("b")).facts.gpu_memory_bytes = {141 * kGiB};  // Of two.
  EXPECT_EQ(Largest(Device::kCuda), std::nullopt);
  policy_.exclude_nodes = {NodeName("b")};
  EXPECT_EQ(Largest(Device::kCuda), 80 * kGiB);
}

TEST_F(LargestDeviceMemoryTest, OnlyNodesThatTheJobMayUseCount) {
  AddNode("a").memory_bytes = 64 * kGiB;
  NodeFacts& labelled = AddNode("b");
  labelled.memory_bytes = 256 * kGiB;
  labelled.labels = {{"kind", "new"}};
  AddNode("c", /*slots=*/0).memory_bytes = 512 * kGiB;
  EXPECT_EQ(Largest(Device::kCpu), 256 * kGiB);
  policy_.nodes = {NodeName("a")};
  EXPECT_EQ(Largest(Device::kCpu), 64 * kGiB);
  policy_ = PlacementPolicy();
  policy_.labels = {{"kind", "old"}};
  EXPECT_EQ(Largest(Device::kCpu), std::nullopt);
}

TEST_F(LargestDeviceMemoryTest, ThePoolOfSparesCountsToo) {
  AddNode("a").memory_bytes = 64 * kGiB;
  NodeFacts& pooled = AddNode("b");
  pooled.memory_bytes = 256 * kGiB;
  pooled.labels = {{"pool", "spare"}};
  EXPECT_EQ(Largest(Device::kCpu), 256 * kGiB);
}

}  // namespace
}  // namespace paceline
