#include "worker/trainer/telemetry/profiler.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/synchronization/mutex.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override { Make(/*own_pace=*/false); }

  void Make(bool own_pace) {
    Profiler::Options options;
    options.own_pace = own_pace;
    options.directory = ::testing::TempDir() + "/profiles." +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options.rank = 3;
    options.start_memory = [] {};
    options.write_memory = [](const std::string&) {
      return absl::UnimplementedError("no device whose memory could be shown");
    };
    options.on_result = [this](const ProfileResult& result) {
      absl::MutexLock lock(&mutex_);
      result_ = result;
    };
    profiler_ = std::make_unique<Profiler>(std::move(options));
  }

  void RunSteps(const ProfileRequest& request, int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) {
      profiler_->BeforeStep(request, step);
      sum_ = at::ones({64, 64}).matmul(at::ones({64, 64})).sum().item<float>();
      profiler_->AfterStep(step);
    }
  }

  ProfileResult Result() {
    profiler_.reset();  // Waits for the writing.
    absl::MutexLock lock(&mutex_);
    return result_.value_or(ProfileResult());
  }

  std::unique_ptr<Profiler> profiler_;
  float sum_ = 0;

 private:
  absl::Mutex mutex_;
  std::optional<ProfileResult> result_;
};

int Count(const nlohmann::json& trace, const std::string& name) {
  int count = 0;
  for (const auto& event : trace["traceEvents"]) count += event.value("name", "") == name ? 1 : 0;
  return count;
}

TEST_F(ProfilerTest, TraceHoldsTheStepsThatWereAskedFor) {
  RunSteps({/*id=*/1, /*first_step=*/2, /*steps=*/3, /*memory=*/false}, 0, 8);
  EXPECT_FALSE(profiler_->active());
  const ProfileResult result = Result();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.id, 1);
  EXPECT_EQ(result.first_step, 2);
  EXPECT_EQ(result.steps, 3);
  EXPECT_GT(result.dump_s, 0);
  EXPECT_THAT(result.trace, HasSubstr("/1/rank3.trace.json"));
  std::ifstream file(result.trace);
  const nlohmann::json trace = nlohmann::json::parse(file);
  EXPECT_EQ(Count(trace, "aten::matmul"), 3);
  for (const char* step : {"ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"}) {
    EXPECT_EQ(Count(trace, step), 1) << step;
  }
  EXPECT_GT(result.trace_bytes, 0);
}

TEST_F(ProfilerTest, RequestThatComesTooLateIsRefused) {
  RunSteps({1, 2, 3, false}, 5, 8);
  EXPECT_THAT(Result().error, HasSubstr("came too late, before step 5"));
}

TEST_F(ProfilerTest, WhereRanksStepAtTheirOwnPaceNoRequestComesTooLate) {
  Make(/*own_pace=*/true);
  RunSteps({1, 2, 3, false}, 5, 9);
  const ProfileResult result = Result();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.first_step, 5);
  EXPECT_EQ(result.steps, 3);
}

TEST_F(ProfilerTest, TrainingThatEndsCutsTheTraceShort) {
  RunSteps({1, 2, 30, false}, 0, 5);
  EXPECT_TRUE(profiler_->active());
  profiler_->Finish();
  const ProfileResult result = Result();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.steps, 3);
}

TEST_F(ProfilerTest, TrainingThatEndsBeforeTheFirstStepSaysSo) {
  RunSteps({1, 20, 3, false}, 0, 5);
  profiler_->Finish();
  EXPECT_THAT(Result().error, HasSubstr("ended before step 20"));
}

TEST_F(ProfilerTest, EachRequestIsServedOnce) {
  RunSteps({1, 0, 1, false}, 0, 3);
  RunSteps({2, 4, 2, false}, 3, 9);
  const ProfileResult result = Result();
  EXPECT_EQ(result.id, 2);
  EXPECT_EQ(result.first_step, 4);
  EXPECT_EQ(result.steps, 2);
}

TEST_F(ProfilerTest, MemoryThatCannotBeShownIsToldBesideTheTrace) {
  RunSteps({1, 0, 1, /*memory=*/true}, 0, 3);
  const ProfileResult result = Result();
  EXPECT_THAT(result.error, HasSubstr("no device"));
  EXPECT_EQ(result.memory, "");
  EXPECT_GT(result.trace_bytes, 0);
}

}  // namespace
}  // namespace paceline
