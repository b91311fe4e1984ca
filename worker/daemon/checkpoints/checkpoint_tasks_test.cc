#include "worker/daemon/checkpoints/checkpoint_tasks.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace paceline {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(20);

v1::CheckpointTask Settle(const std::string& directory, int64_t generation) {
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::SETTLE);
  task.set_directory(directory);
  task.set_generation(generation);
  return task;
}

v1::CheckpointTask Remove(const std::string& directory) {
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::REMOVE);
  task.set_directory(directory);
  return task;
}

// A file system that behaves as the test says and records the requests it gets.
class FakeFiles {
 public:
  ~FakeFiles() { Release(); }

  v1::CheckpointTaskResult Run(const v1::CheckpointTask& task) {
    absl::MutexLock lock(&mutex_);
    started_.push_back(task.directory());
    const auto released = [&] { return stuck_.count(task.directory()) == 0; };
    mutex_.Await(absl::Condition(&released));
    v1::CheckpointTaskResult result;
    result.set_error(error_);
    if (error_.empty()) result.add_found()->set_name("step of " + task.directory());
    return result;
  }

  void SetError(const std::string& error) {
    absl::MutexLock lock(&mutex_);
    error_ = error;
  }
  void GetStuck(const std::string& directory) {
    absl::MutexLock lock(&mutex_);
    stuck_.insert(directory);
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    stuck_.clear();
  }

  // Waits until `count` tasks have started; returns their directories in order.
  std::vector<std::string> Started(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return started_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kDeadline));
    return started_;
  }

 private:
  absl::Mutex mutex_;
  std::string error_;
  std::set<std::string> stuck_;
  std::vector<std::string> started_;
};

class CheckpointTasksTest : public ::testing::Test {
 protected:
  CheckpointTasksTest() { Make(absl::Seconds(30)); }
  ~CheckpointTasksTest() override { End(); }

  void Make(absl::Duration retry_delay) {
    End();
    loop_ = std::make_unique<EventLoop>();
    CheckpointTasks::Options options;
    // A task that hangs outlives the test's own objects.
    options.run = [files = files_](const v1::CheckpointTask& task) { return files->Run(task); };
    options.retry_delay = retry_delay;
    options.end_limit = absl::Milliseconds(50);
    tasks_ = std::make_unique<CheckpointTasks>(*loop_, options, [this] { CopyResults(); });
    thread_ = std::thread([this] { loop_->Run(); });
  }

  void End() {
    if (tasks_ == nullptr) return;
    loop_->Stop();
    thread_.join();
    tasks_.reset();
    loop_.reset();
  }

  void SetWanted(const std::vector<v1::CheckpointTask>& tasks) {
    absl::Notification done;
    loop_->Post([&] {
      google::protobuf::RepeatedPtrField<v1::CheckpointTask> wanted(tasks.begin(), tasks.end());
      tasks_->SetWanted(wanted);
      CopyResults();
      done.Notify();
    });
    done.WaitForNotification();
  }

  void CopyResults() {
    absl::MutexLock lock(&mutex_);
    results_.clear();
    for (const v1::CheckpointTaskResult& result : tasks_->Results()) {
      results_ += result.task().directory() + ": " +
                  (result.error().empty() ? result.found(0).name() : result.error()) + "\n";
    }
  }

  std::string Results() {
    absl::MutexLock lock(&mutex_);
    return results_;
  }

  void WaitForResults(const std::string& wanted) {
    absl::MutexLock lock(&mutex_);
    const auto equal = [&] { return results_ == wanted; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&equal), kDeadline)) << results_;
  }

  const std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<CheckpointTasks> tasks_;
  std::thread thread_;

  absl::Mutex mutex_;
  std::string results_;
};

TEST_F(CheckpointTasksTest, TasksOfADirectoryAreDoneInTheOrderOfThePlan) {
  SetWanted({Remove("/a/step-2"), Settle("/a", 1), Remove("/a/step-1/")});
  WaitForResults("/a/step-2: step of /a/step-2\n/a: step of /a\n/a/step-1/: step of /a/step-1/\n");
  EXPECT_EQ(files_->Started(3), (std::vector<std::string>{"/a/step-2", "/a", "/a/step-1/"}));
}

TEST_F(CheckpointTasksTest, TaskThatIsDoneIsNotDoneAgainWhileListed) {
  SetWanted({Settle("/a", 1)});
  WaitForResults("/a: step of /a\n");
  SetWanted({Settle("/a", 1), Settle("/b", 1)});
  WaitForResults("/a: step of /a\n/b: step of /b\n");
  EXPECT_EQ(files_->Started(2).size(), 2u);
}

TEST_F(CheckpointTasksTest, TaskOfALaterGenerationIsAnotherOne) {
  SetWanted({Settle("/a", 1)});
  WaitForResults("/a: step of /a\n");
  SetWanted({Settle("/a", 2)});
  EXPECT_EQ(files_->Started(2).size(), 2u);
  WaitForResults("/a: step of /a\n");
}

TEST_F(CheckpointTasksTest, UnlistedIsForgottenAndDoneAgainWhenItIsListedAnew) {
  SetWanted({Settle("/a", 1)});
  WaitForResults("/a: step of /a\n");
  SetWanted({});
  EXPECT_EQ(Results(), "");
  SetWanted({Settle("/a", 1)});
  EXPECT_EQ(files_->Started(2).size(), 2u);
  WaitForResults("/a: step of /a\n");
}

TEST_F(CheckpointTasksTest, FailedTaskIsToldAndTriedAgainAfterAWhile) {
  Make(absl::Milliseconds(20));
  files_->SetError("no such disk");
  SetWanted({Settle("/a", 1)});
  WaitForResults("/a: no such disk\n");
  files_->Started(3);
  files_->SetError("");
  WaitForResults("/a: step of /a\n");
}

TEST_F(CheckpointTasksTest, FailedTaskWaitsAndLetsOthersGoFirst) {
  files_->SetError("no such disk");
  SetWanted({Settle("/a", 1)});
  WaitForResults("/a: no such disk\n");
  files_->SetError("");
  SetWanted({Settle("/a", 1), Settle("/b", 1)});
  WaitForResults("/a: no such disk\n/b: step of /b\n");
  EXPECT_EQ(files_->Started(2), (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(CheckpointTasksTest, DirectoryThatHangsHoldsUpItsOwnTasksAlone) {
  files_->GetStuck("/a");
  SetWanted({Settle("/a", 1)});
  files_->Started(1);
  SetWanted({Settle("/a", 1), Remove("/a/step-1"), Settle("/b", 1)});
  WaitForResults("/b: step of /b\n");
  EXPECT_EQ(files_->Started(2), (std::vector<std::string>{"/a", "/b"}));
  files_->Release();
  WaitForResults("/a: step of /a\n/a/step-1: step of /a/step-1\n/b: step of /b\n");
}

TEST_F(CheckpointTasksTest, NoMoreThanSoManyRunAtOnce) {
  std::vector<v1::CheckpointTask> tasks;
  for (size_t i = 0; i <= CheckpointTasks::kMaxRunning; ++i) {
    const std::string directory = "/" + std::to_string(i);
    if (i < CheckpointTasks::kMaxRunning) files_->GetStuck(directory);
    tasks.push_back(Settle(directory, 1));
  }
  SetWanted(tasks);
  EXPECT_EQ(files_->Started(CheckpointTasks::kMaxRunning).size(), CheckpointTasks::kMaxRunning);
  EXPECT_EQ(Results(), "");
  files_->Release();
  files_->Started(tasks.size());
}

TEST_F(CheckpointTasksTest, ResultOfAnEarlierListingDoesNotCount) {
  files_->GetStuck("/a");
  SetWanted({Settle("/a", 1)});
  files_->Started(1);
  SetWanted({});
  SetWanted({Settle("/a", 1)});
  files_->Release();
  EXPECT_EQ(files_->Started(2).size(), 2u);
  WaitForResults("/a: step of /a\n");
}

TEST_F(CheckpointTasksTest, TaskThatHangsDoesNotHoldUpTheEnd) {
  files_->GetStuck("/a");
  SetWanted({Settle("/a", 1)});
  files_->Started(1);
  const absl::Time begin = EventLoop::Now();
  End();
  EXPECT_LT(EventLoop::Now() - begin, absl::Seconds(5));
  // The hanging task ends now and must touch nothing that is gone.
  files_->Release();
}

}  // namespace
}  // namespace paceline
