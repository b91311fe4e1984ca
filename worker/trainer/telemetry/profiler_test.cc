#include "worker/trainer/telemetry/profiler.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class NoTimer : public StepTimer {
 public:
  void ShowEvaluation(int64_t /*steps*/, int64_t /*done*/, int64_t /*all*/) override {}
  void EndStep(const StepResult& /*result*/) override {}
  std::vector<StepRecord> TakeFinished() override { return {}; }
  void Flush() override {}

 private:
  void DoEnter(Phase /*phase*/, int64_t /*step*/) override {}
};

// Of a script that may trace by itself.
class FakeInterpreter : public Interpreter {
 public:
  std::string WhyNotTraced() override { return why_not; }
  void Do(const std::function<void()>& part) override {
    ++parts;
    part();
  }

  std::string why_not;
  int parts = 0;  // That were done.
};

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override { Make(/*own_pace=*/false); }

  void Make(bool own_pace) {
    Profiler::Options options;
    options.own_pace = own_pace;
    options.directory = ::testing::TempDir() + "/profiles." +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options.rank = 3;
    options.timer = &timer_;
    options.interpreter = interpreter_;
    options.answered = &answered_;
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
      timer_.Enter(Phase::kForward, step);
      sum_ = at::ones({64, 64}).matmul(at::ones({64, 64})).sum().item<float>();
      timer_.Enter(Phase::kBackward, step);
      ends_ += profiler_->AfterStep() ? 1 : 0;
    }
  }

  ProfileResult Result() {
    profiler_.reset();  // Waits for the writing.
    absl::MutexLock lock(&mutex_);
    return result_.value_or(ProfileResult());
  }

  NoTimer timer_;
  Interpreter* interpreter_ = nullptr;
  int64_t answered_ = 0;
  std::unique_ptr<Profiler> profiler_;
  float sum_ = 0;
  int ends_ = 0;  // Of traces.

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
  for (const char* phase : {"forward", "backward"}) EXPECT_EQ(Count(trace, phase), 3) << phase;
  EXPECT_GT(result.trace_bytes, 0);
  EXPECT_EQ(ends_, 1);
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

TEST_F(ProfilerTest, TheNextGenerationDoesNotAnswerAgain) {
  RunSteps({1, 0, 1, false}, 0, 3);
  EXPECT_EQ(Result().error, "");
  Make(/*own_pace=*/true);
  RunSteps({1, 0, 1, false}, 3, 6);
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(Result().first_step, 0) << "the first answer";
}

TEST_F(ProfilerTest, AStepThatIsCutOffIsNoTrace) {
  profiler_->BeforeStep({1, 2, 3, false}, 2);
  timer_.Enter(Phase::kForward, 2);
  profiler_->Finish();
  EXPECT_FALSE(profiler_->active());
  EXPECT_THAT(Result().error, HasSubstr("step 2 was cut off"));
  Make(/*own_pace=*/false);
  RunSteps({2, 4, 2, false}, 2, 8);
  EXPECT_EQ(Result().steps, 2);
}

TEST_F(ProfilerTest, ATraceMayBeGivenUpInAStep) {
  RunSteps({1, 0, 5, false}, 0, 2);
  profiler_->BeforeStep({1, 0, 5, false}, 2);
  timer_.Enter(Phase::kForward, 2);
  profiler_->GiveUp("another one is wanted");
  timer_.Enter(Phase::kBackward, 2);
  EXPECT_FALSE(profiler_->AfterStep());
  RunSteps({1, 0, 5, false}, 3, 9);
  EXPECT_EQ(ends_, 0);
  EXPECT_EQ(Result().error, "another one is wanted");
}

TEST_F(ProfilerTest, AnInterpreterIsHeldAtBothEndsOfATrace) {
  FakeInterpreter interpreter;
  interpreter_ = &interpreter;
  Make(/*own_pace=*/false);
  RunSteps({1, 0, 2, false}, 0, 3);
  EXPECT_EQ(interpreter.parts, 2);
  EXPECT_EQ(Result().error, "");
}

TEST_F(ProfilerTest, AnInterpreterThatIsTracedAlreadyIsLeftAlone) {
  FakeInterpreter interpreter;
  interpreter.why_not = "the script traces";
  interpreter_ = &interpreter;
  Make(/*own_pace=*/false);
  RunSteps({1, 0, 2, false}, 0, 3);
  EXPECT_EQ(interpreter.parts, 0);
  EXPECT_EQ(Result().error, "the script traces");
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
