// Changes of a running job over real sockets: ladders, modes, profiles; and the ranks' figures.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::JobSpec HsgdSpec() {
  v1::JobSpec spec = Spec(4);
  spec.set_steps(1000);
  v1::Hsgd* hsgd = spec.mutable_strategy()->mutable_hsgd();
  for (const int size : {2, 4}) {
    v1::LadderLevel* level = hsgd->add_ladder();
    level->set_period(size);
    level->set_size(size);
  }
  return spec;
}

class TrainingPlansTest : public ServerTest {
 protected:
  // Starts a job with two ranks on each of two nodes, which are in different racks.
  void StartJob(const v1::JobSpec& spec) {
    for (int n = 0; n < 2; ++n) {
      v1::Hello hello = Hello("w" + std::to_string(n), 2, "uid" + std::to_string(n));
      (*hello.mutable_labels())["rack"] = "r" + std::to_string(n);
      workers_.push_back(Join(hello));
    }
    ASSERT_TRUE(Submit(spec, "submit", &job_).ok());
    for (auto& worker : workers_) plans_.push_back(worker->ReadPlan(2));
    Report(0, 0);
    job_ = WaitFor(job_.id(), v1::RUNNING);
  }

  // Reports that all ranks run, at these version and step; rank 3 could not prepare version
  // `failed`.
  void Report(int64_t version, int64_t step, int64_t profile = 0, int64_t failed = 0) {
    for (size_t n = 0; n < workers_.size(); ++n) {
      std::vector<v1::TrainerReport> reports;
      for (const v1::TrainerPlan& plan : plans_[n].trainers()) {
        v1::TrainerReport report = Trainer(plan, v1::TRAINER_RUNNING);
        report.mutable_progress()->set_step(step);
        report.mutable_plan()->set_active_version(version);
        report.mutable_plan()->set_active_since_step(step);
        if (plan.id().rank() == 3 && failed != 0) {
          report.mutable_plan()->set_failed_version(failed);
          report.mutable_plan()->set_error("rendezvous: late");
        }
        report.mutable_figures()->set_steps(10);
        report.mutable_figures()->set_tokens_per_s(100);
        report.mutable_figures()->set_mfu(0.5);
        report.mutable_figures()->set_flops_per_s(2e12);
        report.mutable_figures()->set_flops_source(v1::FLOPS_COUNTED);
        report.mutable_profile()->set_id(profile);
        report.mutable_profile()->set_trace("/traces/rank");
        reports.push_back(std::move(report));
      }
      workers_[n]->Report(reports);
    }
  }

  // Reports until the controller shows it.
  v1::Job ReportAndWait(int64_t version, int64_t step, int64_t profile = 0, int64_t failed = 0) {
    Report(version, step, profile, failed);
    v1::Job job;
    for (int i = 0; i < 2000; ++i) {
      job = Get(job_.id());
      const bool shown = std::all_of(job.ranks().begin(), job.ranks().end(), [&](const auto& rank) {
        return rank.progress().step() == step && rank.profile().id() == profile;
      });
      if (shown) return job;
      absl::SleepFor(absl::Milliseconds(5));
    }
    ADD_FAILURE() << job.ShortDebugString();
    return job;
  }

  grpc::Status ChangeLadder(const std::vector<std::pair<int, int>>& levels,
                            const std::string& request_id, v1::Job* job,
                            v1::WireFormat format = v1::WIRE_FORMAT_UNSPECIFIED) {
    grpc::ClientContext context;
    v1::ChangeLadderRequest request;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    for (const auto& [period, size] : levels) {
      v1::LadderLevel* level = request.add_ladder();
      level->set_period(period);
      level->set_size(size);
      level->set_format(format);
    }
    return jobs_->ChangeLadder(&context, request, job);
  }

  grpc::Status ChangeMode(const std::string& fields, const std::string& request_id, v1::Job* job) {
    grpc::ClientContext context;
    v1::ChangeModeRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(fields, &request)) << fields;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    return jobs_->ChangeMode(&context, request, job);
  }

  grpc::Status Profile(const std::vector<int>& ranks, const std::string& request_id, v1::Job* job) {
    grpc::ClientContext context;
    v1::ProfileJobRequest request;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    request.mutable_ranks()->Add(ranks.begin(), ranks.end());
    return jobs_->Profile(&context, request, job);
  }

  // Skips to a plan for which `holds`.
  v1::TrainerPlan ReadUntil(size_t node, bool (*holds)(const v1::TrainerPlan&)) {
    while (true) {
      const v1::NodePlan plan = workers_[node]->ReadPlan(2);
      if (plan.trainers_size() != 2 || holds(plan.trainers(0))) return plan.trainers(0);
    }
  }

  v1::Job job_;
  std::vector<std::unique_ptr<PlayedWorker>> workers_;
  std::vector<v1::NodePlan> plans_;
};

TEST_F(TrainingPlansTest, EveryTrainerHasThePlanFromItsFirstMoment) {
  v1::JobSpec spec = HsgdSpec();
  spec.mutable_strategy()->mutable_hsgd()->mutable_ladder(0)->clear_size();
  spec.mutable_strategy()->mutable_hsgd()->mutable_ladder(0)->set_level(v1::SCOPE_RACK);
  spec.mutable_strategy()->mutable_hsgd()->mutable_ladder(1)->clear_size();
  spec.mutable_strategy()->mutable_hsgd()->mutable_ladder(1)->set_level(v1::SCOPE_ALL);
  StartJob(spec);
  for (const v1::NodePlan& plan : plans_) {
    const v1::TrainingPlan& training = plan.trainers(1).plan();
    EXPECT_EQ(training.version(), 1);
    ASSERT_EQ(training.levels_size(), 2);
    EXPECT_THAT(training.levels(0).groups(), ElementsAre(2, 2));
    EXPECT_THAT(training.levels(1).groups(), ElementsAre(4));
    EXPECT_FALSE(plan.trainers(1).has_profile());
  }
  EXPECT_EQ(job_.plan().version(), 1);
  EXPECT_EQ(job_.plan().strategy().hsgd().ladder_size(), 2);
}

TEST_F(TrainingPlansTest, LadderChangesOneAfterTheOtherAlsoOverARestart) {
  StartJob(HsgdSpec());
  v1::Job job;
  EXPECT_EQ(Reason(ChangeLadder({{8, 4}}, "early", &job)), "PLAN_PENDING");
  ReportAndWait(1, 10);
  ASSERT_TRUE(ChangeLadder({{8, 4}}, "r2", &job).ok());
  EXPECT_EQ(job.plan().version(), 2);
  EXPECT_EQ(job.plan().active_version(), 1);
  EXPECT_EQ(job.plan().strategy().hsgd().ladder(0).period(), 8);
  const v1::TrainerPlan sent =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.plan().version() == 2; });
  EXPECT_EQ(sent.plan().levels(0).period(), 8);
  ASSERT_TRUE(ChangeLadder({{8, 4}}, "r2", &job).ok()) << "a repeat";
  EXPECT_EQ(job.plan().version(), 2);
  EXPECT_EQ(Reason(ChangeLadder({{4, 4}}, "r3", &job)), "PLAN_PENDING");

  workers_.clear();
  plans_.clear();
  Restart();
  EXPECT_EQ(Get(job_.id()).plan().version(), 2);
  for (int n = 0; n < 2; ++n) {
    workers_.push_back(std::make_unique<PlayedWorker>(
        channel_, Hello("w" + std::to_string(n), 2, "uid" + std::to_string(n))));
    plans_.push_back(workers_.back()->ReadPlan(2));
    EXPECT_EQ(plans_.back().trainers(0).plan().version(), 2);
    EXPECT_THAT(plans_.back().trainers(0).plan().gradient_groups(), ElementsAre(2, 2));
  }
  job = ReportAndWait(2, 30);
  EXPECT_EQ(job.plan().active_version(), 2);
  EXPECT_EQ(job.plan().active_since_step(), 30);
  ASSERT_TRUE(ChangeLadder({{4, 4}}, "r3", &job).ok());
  EXPECT_EQ(job.plan().version(), 3);
}

TEST_F(TrainingPlansTest, PlanVersionThatARankCouldNotPrepareIsReplaced) {
  StartJob(HsgdSpec());
  ReportAndWait(1, 10);
  v1::Job job;
  ASSERT_TRUE(ChangeLadder({{8, 4}}, "r2", &job).ok());
  job = ReportAndWait(1, 20, 0, /*failed=*/2);
  EXPECT_EQ(job.ranks(3).plan().failed_version(), 2);
  EXPECT_EQ(job.ranks(3).plan().error(), "rendezvous: late");
  EXPECT_EQ(job.plan().active_version(), 1);
  ASSERT_TRUE(ChangeLadder({{4, 4}}, "r3", &job).ok());
  EXPECT_EQ(job.plan().version(), 3);
  const v1::TrainerPlan sent =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.plan().version() == 3; });
  EXPECT_EQ(sent.plan().levels(0).period(), 4);
  ReportAndWait(1, 30, 0, /*failed=*/2);
  EXPECT_EQ(Reason(ChangeLadder({{8, 4}}, "r4", &job)), "PLAN_PENDING");
}

TEST_F(TrainingPlansTest, LadderOfLocalSgdIsAPeriod) {
  v1::JobSpec spec = Spec(4);
  spec.set_steps(1000);
  spec.mutable_strategy()->mutable_local_sgd()->set_period(4);
  StartJob(spec);
  ReportAndWait(1, 10);
  v1::Job job;
  const grpc::Status two = ChangeLadder({{2, 2}, {4, 4}}, "r2", &job);
  EXPECT_EQ(Reason(two), "LADDER_INVALID");
  EXPECT_THAT(two.error_message(), HasSubstr("one level over all ranks"));
  EXPECT_EQ(Reason(ChangeLadder({}, "r4", &job)), "LADDER_INVALID") << "it needs a period";
  ASSERT_TRUE(ChangeLadder({{8, 4}}, "r4", &job, v1::WIRE_FORMAT_FP8).ok());
  EXPECT_EQ(job.plan().version(), 2);
  EXPECT_EQ(job.plan().strategy().local_sgd().period(), 8);
  EXPECT_EQ(job.plan().strategy().local_sgd().format(), v1::WIRE_FORMAT_FP8);
  const v1::TrainerPlan sent =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.plan().version() == 2; });
  ASSERT_EQ(sent.plan().levels_size(), 1);
  EXPECT_EQ(sent.plan().levels(0).period(), 0) << "trainers that do not know fp8 refuse it";
  EXPECT_EQ(sent.plan().levels(0).guarded_period(), 8);
  EXPECT_EQ(sent.plan().levels(0).format(), v1::WIRE_FORMAT_FP8);
  EXPECT_THAT(sent.plan().levels(0).groups(), ElementsAre(4));

  ASSERT_TRUE(Submit(spec, "another", &job_).ok());
  ASSERT_TRUE(ChangeLadder({{16, 4}}, "r5", &job).ok());
  EXPECT_EQ(job.state(), v1::QUEUED);
  EXPECT_EQ(job.plan().strategy().local_sgd().period(), 16);
}

TEST_F(TrainingPlansTest, LaddersThatCannotBeAreRefused) {
  StartJob(HsgdSpec());
  v1::Job job;
  const grpc::Status status = ChangeLadder({{4, 3}}, "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "LADDER_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("ladder[0].size: is 3"));
  EXPECT_EQ(Get(job_.id()).plan().version(), 1);
}

TEST_F(TrainingPlansTest, LadderOfInt4EndsInOuterSteps) {
  StartJob(HsgdSpec());
  ReportAndWait(1, 10);
  v1::Job job;
  const grpc::Status plain = ChangeLadder({{8, 4}}, "r1", &job, v1::WIRE_FORMAT_INT4);
  EXPECT_EQ(Reason(plain), "LADDER_INVALID");
  EXPECT_THAT(plain.error_message(), HasSubstr("ladder[0].format: is int4, which has 15 values"));
  EXPECT_EQ(Get(job_.id()).plan().version(), 1);
  v1::ChangeLadderRequest request;
  request.set_job(job_.id());
  request.set_request_id("r2");
  v1::LadderLevel* level = request.add_ladder();
  level->set_period(8);
  level->set_size(4);
  level->set_format(v1::WIRE_FORMAT_INT4);
  level->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  grpc::ClientContext context;
  ASSERT_TRUE(jobs_->ChangeLadder(&context, request, &job).ok());
  const v1::TrainerPlan sent =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.plan().version() == 2; });
  ASSERT_EQ(sent.plan().levels_size(), 1);
  const v1::PlanLevel& planned = sent.plan().levels(0);
  EXPECT_EQ(planned.period(), 0) << "trainers that do not know outer steps refuse it";
  EXPECT_EQ(planned.guarded_period(), 8);
  EXPECT_EQ(planned.format(), v1::WIRE_FORMAT_INT4);
}

// A generation that began with it would fail: its trainers refuse it.
TEST_F(TrainingPlansTest, StreamedLadderIsRefusedBesideAveragedStates) {
  v1::JobSpec spec = HsgdSpec();
  spec.mutable_strategy()->set_optimizer_state(v1::OPTIMIZER_STATE_AVERAGE);
  StartJob(spec);
  ReportAndWait(1, 10);
  v1::ChangeLadderRequest request;
  request.set_job(job_.id());
  request.set_request_id("r1");
  v1::LadderLevel* level = request.add_ladder();
  level->set_period(8);
  level->set_size(4);
  level->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  level->mutable_outer()->set_delay(2);
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status status = jobs_->ChangeLadder(&context, request, &job);
  EXPECT_EQ(Reason(status), "LADDER_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("ladder[0].outer: has fragments, delay or alpha"));
  EXPECT_EQ(Get(job_.id()).plan().version(), 1);
}

TEST_F(TrainingPlansTest, JobMayBeginWithoutALadderAndGiveOneUp) {
  v1::JobSpec spec = HsgdSpec();
  spec.mutable_strategy()->mutable_hsgd()->clear_ladder();
  StartJob(spec);
  EXPECT_TRUE(plans_[0].trainers(0).plan().levels().empty());
  ReportAndWait(1, 8);
  v1::Job job;
  ASSERT_TRUE(ChangeLadder({{2, 2}, {4, 4}}, "r1", &job).ok());
  EXPECT_EQ(job.plan().strategy().hsgd().ladder_size(), 2);
  ReportAndWait(2, 16);
  ASSERT_TRUE(ChangeLadder({}, "r2", &job).ok());
  EXPECT_TRUE(job.plan().strategy().has_hsgd());
  EXPECT_EQ(job.plan().strategy().hsgd().ladder_size(), 0);
}

TEST_F(TrainingPlansTest, SynchronousJobKeepsItsStrategy) {
  StartJob(Spec(4));
  v1::Job job;
  const grpc::Status status = ChangeLadder({{4, 4}}, "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "STRATEGY_FIXED");
}

v1::JobSpec SlipstreamSpec() {
  v1::JobSpec spec = Spec(4);
  spec.set_steps(1000);
  spec.mutable_strategy()->mutable_slipstream()->mutable_window()->set_max_steps(8);
  return spec;
}

TEST_F(TrainingPlansTest, SlipstreamReachesEveryTrainerFromItsFirstMoment) {
  StartJob(SlipstreamSpec());
  for (const v1::NodePlan& plan : plans_) {
    EXPECT_TRUE(plan.trainers(1).spec().strategy().has_slipstream());
    const v1::TrainingPlan& training = plan.trainers(1).plan();
    EXPECT_EQ(training.version(), 1);
    EXPECT_EQ(training.levels_size(), 0);
    EXPECT_EQ(training.slipstream().mode(), v1::SLIPSTREAM_FREE);
    EXPECT_EQ(training.slipstream().window().max_steps(), 8);
    EXPECT_EQ(training.slipstream().window().max_cap(), 32);
    EXPECT_FALSE(training.slipstream().averages_state());
  }
  v1::Job job;
  EXPECT_EQ(Reason(ChangeLadder({{8, 4}}, "r1", &job)), "STRATEGY_FIXED");
}

TEST_F(TrainingPlansTest, ModeChangesWhileTheJobTrainsAlsoOverARestart) {
  StartJob(SlipstreamSpec());
  v1::Job job;
  EXPECT_EQ(Reason(ChangeMode("mode: SLIPSTREAM_DROP", "early", &job)), "PLAN_PENDING");
  ReportAndWait(1, 10);
  ASSERT_TRUE(
      ChangeMode("mode: SLIPSTREAM_PAUSE optimizer_state: OPTIMIZER_STATE_AVERAGE", "r2", &job)
          .ok());
  EXPECT_EQ(job.plan().version(), 2);
  EXPECT_EQ(job.plan().active_version(), 1);
  const v1::SlipstreamPlan sent =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.plan().version() == 2; })
          .plan()
          .slipstream();
  EXPECT_EQ(sent.mode(), v1::SLIPSTREAM_PAUSE);
  EXPECT_TRUE(sent.averages_state());
  EXPECT_EQ(sent.window().max_steps(), 8);

  workers_.clear();
  plans_.clear();
  Restart();
  EXPECT_EQ(Get(job_.id()).plan().strategy().slipstream().mode(), v1::SLIPSTREAM_PAUSE);
  for (int n = 0; n < 2; ++n) {
    workers_.push_back(std::make_unique<PlayedWorker>(
        channel_, Hello("w" + std::to_string(n), 2, "uid" + std::to_string(n))));
    plans_.push_back(workers_.back()->ReadPlan(2));
    EXPECT_TRUE(plans_.back().trainers(0).plan().slipstream().averages_state());
  }
  job = ReportAndWait(2, 30);
  EXPECT_EQ(job.plan().active_version(), 2);
  ASSERT_TRUE(ChangeMode("mode: SLIPSTREAM_DROP window { max_cap: 500 }", "r3", &job).ok());
  EXPECT_EQ(job.plan().strategy().optimizer_state(), v1::OPTIMIZER_STATE_LOCAL);
  EXPECT_EQ(job.plan().strategy().slipstream().window().max_steps(), 8) << "as it was";
  EXPECT_EQ(job.plan().strategy().slipstream().window().max_cap(), 500);
}

TEST_F(TrainingPlansTest, ModesThatCannotBeAreRefused) {
  StartJob(SlipstreamSpec());
  ReportAndWait(1, 10);
  v1::Job job;
  const grpc::Status nothing = ChangeMode("", "r1", &job);
  EXPECT_EQ(Reason(nothing), "MODE_INVALID");
  EXPECT_THAT(nothing.error_message(), HasSubstr("mode: is missing"));
  const grpc::Status bounds = ChangeMode("window { min_steps: 9 max_steps: 3 }", "r2", &job);
  EXPECT_EQ(bounds.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(bounds.error_message(), HasSubstr("window.max_steps: is 3"));
  EXPECT_EQ(Reason(ChangeMode("optimizer_state: OPTIMIZER_STATE_AVERAGE", "r3", &job)),
            "MODE_INVALID");
  EXPECT_EQ(Get(job_.id()).plan().version(), 1);
}

TEST_F(TrainingPlansTest, OtherStrategiesHaveNoMode) {
  StartJob(HsgdSpec());
  v1::Job job;
  const grpc::Status status = ChangeMode("mode: SLIPSTREAM_FREE", "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "STRATEGY_FIXED");
}

TEST_F(TrainingPlansTest, ProfileGoesToTheChosenRanksAndComesBack) {
  StartJob(HsgdSpec());
  ReportAndWait(1, 20);
  v1::Job job;
  EXPECT_EQ(Reason(Profile({4}, "r0", &job)), "PROFILE_INVALID");
  ASSERT_TRUE(Profile({2}, "r1", &job).ok());
  EXPECT_EQ(job.profile().request().id(), 1);
  EXPECT_EQ(job.profile().request().steps(), 3);
  EXPECT_GE(job.profile().request().first_step(), 25);
  EXPECT_THAT(job.profile().ranks(), ElementsAre(2));
  const v1::TrainerPlan asked =
      ReadUntil(1, [](const v1::TrainerPlan& plan) { return plan.has_profile(); });
  EXPECT_EQ(asked.id().rank(), 2);
  EXPECT_EQ(asked.profile().first_step(), job.profile().request().first_step());
  EXPECT_EQ(Reason(Profile({}, "r2", &job)), "PROFILE_PENDING");

  job = ReportAndWait(1, 40, /*profile=*/1);
  EXPECT_EQ(job.ranks(2).profile().trace(), "/traces/rank");
  workers_.clear();
  Restart();
  job = Get(job_.id());
  EXPECT_EQ(job.profile().request().id(), 1);
  EXPECT_EQ(job.ranks(2).profile().trace(), "/traces/rank");
  ASSERT_TRUE(Profile({}, "r2", &job).ok());
  EXPECT_EQ(job.profile().request().id(), 2);
  EXPECT_EQ(job.profile().ranks_size(), 4);
}

TEST_F(TrainingPlansTest, FiguresOfTheRanksAndOfTheJob) {
  StartJob(HsgdSpec());
  v1::Job job = ReportAndWait(1, 10);
  EXPECT_EQ(job.progress().tokens_per_s(), 400);
  EXPECT_EQ(job.progress().mfu(), 0.5);
  EXPECT_EQ(job.ranks(3).figures().steps(), 10);
  EXPECT_EQ(job.ranks(3).plan().active_version(), 1);
  const std::string metrics = ReadMetrics("paceline_job_tokens_per_second{job_id=\"" + job_.id());
  EXPECT_THAT(metrics, HasSubstr("paceline_job_mfu_ratio{job_id=\"" + job_.id() + "\"} 0.5"));
  EXPECT_EQ(job.progress().flops_per_s(), 8e12);
  EXPECT_EQ(job.progress().flops_source(), v1::FLOPS_COUNTED);
  EXPECT_THAT(metrics, HasSubstr("paceline_job_flops_per_second{job_id=\"" + job_.id() +
                                 "\",source=\"counted\"} 8000000000000"));
}

}  // namespace
}  // namespace paceline
