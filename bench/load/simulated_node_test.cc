#include "bench/load/simulated_node.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "common/event_loop.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

class SimulatedNodeTest : public ServerTest {
 protected:
  SimulatedNodeTest() {
    SimulatedNode::Options options;
    options.controller = server_->Address("grpc");
    options.name = "node-1";
    options.credentials = grpc::InsecureChannelCredentials();
    options.ranks = 2;
    options.steps_per_second = 100;
    node_.emplace(options, &totals_, &storm_);
  }
  ~SimulatedNodeTest() override { node_->Stop(); }

  // Sends all that is left to be sent.
  void TickSomeTimes() {
    int ticks = 0;
    TickUntil([&] { return ++ticks > 20; });
  }

  // Ticks until it holds.
  template <typename Condition>
  void TickUntil(Condition holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) {
      node_->Tick(EventLoop::Now());
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_TRUE(holds());
  }

  Totals totals_;
  Storm storm_;
  std::optional<SimulatedNode> node_;
};

TEST_F(SimulatedNodeTest, JobRunsOnItAndEveryRecordIsConfirmed) {
  TickUntil([this] { return totals_.connected == 1; });
  v1::Job job;
  v1::JobSpec spec = Spec(2);
  spec.set_steps(1'000'000);
  ASSERT_TRUE(Submit(spec, "r1", &job).ok());
  TickUntil([this] { return totals_.running == 2; });
  TickUntil([this] { return totals_.records_confirmed > 100; });
  node_->SetSteps(false);
  TickSomeTimes();
  TickUntil([this] { return totals_.records_confirmed == totals_.records_sent; });
  EXPECT_EQ(Get(job.id()).state(), v1::RUNNING);
  EXPECT_EQ(totals_.records_cut.load(), 0);
  ReadMetrics("paceline_job_step_duration_seconds_count{job_id=\"" + job.id() + "\"} " +
              std::to_string(totals_.records_sent.load()));
  EXPECT_GT(totals_.heartbeats.Summary()["count"].get<int>(), 0);
}

TEST_F(SimulatedNodeTest, NodeThatIsCutOffComesBackAndItsRecordsAreAccountedFor) {
  TickUntil([this] { return totals_.connected == 1; });
  v1::Job job;
  v1::JobSpec spec = Spec(2);
  spec.set_steps(1'000'000);
  ASSERT_TRUE(Submit(spec, "r1", &job).ok());
  TickUntil([this] { return totals_.records_confirmed > 10; });
  storm_.Begin();
  node_->Cut();
  TickUntil([this] { return totals_.losses == 1; });
  TickUntil([this] { return totals_.connected == 1; });
  EXPECT_TRUE(storm_.begun());
  EXPECT_GE(storm_.Summary()["dials"].size(), 1u);
  const int64_t sent = totals_.records_sent;
  TickUntil([&] { return totals_.records_sent > sent; });
  node_->SetSteps(false);
  TickSomeTimes();
  TickUntil(
      [this] { return totals_.records_confirmed + totals_.records_cut == totals_.records_sent; });
  ReadMetrics("paceline_telemetry_dropped_total " + std::to_string(totals_.records_cut.load()));
  EXPECT_EQ(Get(job.id()).state(), v1::RUNNING);
}

}  // namespace
}  // namespace paceline
