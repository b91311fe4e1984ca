#include "controller/loop/control_loop.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/synchronization/mutex.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"
#include "controller/metrics/metrics.h"
#include "controller/store/testing/memory_store.h"
#include "controller/wire/encoded_message.h"

namespace paceline {
namespace {

// A disk that commits only when it is allowed to.
class SlowStore : public MemoryStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](int* let) { return *let > 0; }, &let_));
      --let_;
    }
    return MemoryStore::Commit(batch);
  }
  void Let(int commits) {
    absl::MutexLock lock(&mutex_);
    let_ += commits;
  }

 private:
  absl::Mutex mutex_;
  int let_ = 0;
};

class ControlLoopTest : public ::testing::Test {
 protected:
  ControlLoopTest() {
    store_.Let(1);  // LoadState counts the start.
    control_.emplace(&loop_, &store_, &metrics_, *LoadState(store_), Cluster::Options());
    control_->SetListeners({[](const NodeName&, const v1::NodePlan&) {}, [] {}, [] {}, [] {},
                            [](const absl::Status& status) { FAIL() << status; }});
    begin_ = control_->job_log().revision();
  }

  const Job& job() { return control_->cluster().jobs().at(JobId("job-1")); }

  // Event number `n` that watchers have got, from 0.
  v1::JobEvent Shown(int n) {
    v1::JobEvent event;
    EXPECT_TRUE(DecodeRequest(control_->job_log().After(begin_ + n)->encoded, &event).ok());
    return event;
  }
  int64_t CountShown() { return control_->job_log().revision() - begin_; }

  void ReportTrainers(TrainerState of_rank_1) {
    NodeReported report{NodeName("a"), {}};
    for (const int rank : {0, 1}) {
      report.trainers.push_back(
          PlayedReport(job(), rank, rank == 1 ? of_rank_1 : TrainerState::kRunning));
    }
    if (of_rank_1 == TrainerState::kExited) report.trainers[1].exit = TrainerExit();
    control_->Apply(report);
  }

  EventLoop loop_;
  SlowStore store_;
  ControllerMetrics metrics_{"1.0"};
  std::optional<ControlLoop> control_;
  int64_t begin_ = 0;
};

TEST_F(ControlLoopTest, WatchersHearOfNothingThatIsNotDurable) {
  loop_.Post([&] {
    const JobId id("job-1");
    control_->ApplyRequest({"1", 1}, id, JobSubmitted{PlayedRequest()}, [&](const absl::Status&) {
      EXPECT_EQ(job().state, JobState::kCancelled);
      EXPECT_EQ(CountShown(), 0) << "as it is now it may be lost";
      store_.Let(1);
    });
    control_->ApplyRequest({"2", 2}, id, CancelRequested{id, "by ann", absl::Seconds(1)},
                           [&](const absl::Status&) { loop_.Stop(); });
    store_.Let(1);
  });
  loop_.Run();
  ASSERT_EQ(CountShown(), 1);
  EXPECT_EQ(Shown(0).type(), v1::ADDED);
  EXPECT_EQ(Shown(0).job().state(), v1::CANCELLED);
}

TEST_F(ControlLoopTest, EndOfOneRankIsStoredAtOnceAndShownAsProgress) {
  store_.Let(100);
  loop_.Post([&] {
    control_->Apply(NodeConnected{Facts("a", 2), {}});
    control_->Apply(JobSubmitted{PlayedRequest()});
    ReportTrainers(TrainerState::kRunning);
    control_->WhenDurable([&](const absl::Status&) {
      const int64_t shown = CountShown();
      EXPECT_EQ(Shown(static_cast<int>(shown) - 1).job().state(), v1::RUNNING);
      ReportTrainers(TrainerState::kExited);
      control_->WhenDurable([&, shown](const absl::Status&) {
        EXPECT_EQ(CountShown(), shown);
        const auto stored = LoadState(store_);
        EXPECT_EQ(stored->jobs[0].ranks[1].report.state, TrainerState::kExited);
        loop_.After(2 * kProgressPeriod, [&, shown] {
          EXPECT_GT(CountShown(), shown);
          EXPECT_EQ(Shown(static_cast<int>(shown)).job().ranks(1).state(), v1::TRAINER_EXITED);
          loop_.Stop();
        });
      });
    });
  });
  loop_.Run();
}

}  // namespace
}  // namespace paceline
