#include "controller/discovery.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

TEST(DiscoveryTest, WorkersOverANetworkAreReachedByTls) {
  Cluster cluster{Cluster::Options()};
  for (const auto& [name, address] :
       {std::pair("a", "127.0.0.1:9"), std::pair("b", "10.0.0.1:9"), std::pair("c", "")}) {
    NodeFacts facts = Facts(name);
    facts.metrics_address = address;
    cluster.Step(NodeConnected{facts, {}}, At(0));
  }
  const auto targets = nlohmann::json::parse(DescribeTargets(cluster));
  ASSERT_EQ(targets.size(), 2U) << "c tells nothing";
  EXPECT_EQ(targets[0]["targets"][0], "127.0.0.1:9");
  EXPECT_EQ(targets[0]["labels"]["node"], "a");
  EXPECT_FALSE(targets[0]["labels"].contains("__scheme__"));
  EXPECT_EQ(targets[1]["targets"][0], "10.0.0.1:9");
  EXPECT_EQ(targets[1]["labels"]["__scheme__"], "https");
}

}  // namespace
}  // namespace paceline
