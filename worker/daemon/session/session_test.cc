#include "worker/daemon/session/session.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/boot_clock.h"
#include "worker/daemon/testing/fake_controller.h"

namespace paceline {
namespace {

// An owner that sends each message the test sets once.
class FakeOwner : public Session::Owner {
 public:
  v1::Hello MakeHello() override {
    v1::Hello hello;
    hello.set_node("a");
    return hello;
  }
  absl::Status OnWelcome(const v1::Welcome& welcome) override {
    return welcome.cluster_id() == FakeController::kCluster
               ? absl::OkStatus()
               : absl::FailedPreconditionError("wrong cluster");
  }
  void OnMessage(const v1::ControllerMessage& message) override {
    absl::MutexLock lock(&mutex_);
    received_.push_back(message);
  }
  std::optional<v1::WorkerMessage> NextMessage() override {
    return std::exchange(next_, std::nullopt);
  }
  void OnLost() override {
    absl::MutexLock lock(&mutex_);
    ++lost_;
  }
  void OnStandby(const std::string& address, absl::Time sent, const std::string& leader) override {
    absl::MutexLock lock(&mutex_);
    answers_[address] = {sent, leader};
  }

  // Waits until `count` controllers have answered that they stand by.
  bool WaitForStandbys(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return answers_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
  }
  bool WaitForPlans(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return received_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
  }

  // Used on the loop.
  std::optional<v1::WorkerMessage> next_;

  absl::Mutex mutex_;
  std::vector<v1::ControllerMessage> received_ ABSL_GUARDED_BY(mutex_);
  int lost_ ABSL_GUARDED_BY(mutex_) = 0;
  struct Answer {
    absl::Time sent;
    std::string leader;
  };
  std::map<std::string, Answer> answers_ ABSL_GUARDED_BY(mutex_);  // Latest answers, by address.
};

class SessionTest : public ::testing::Test {
 protected:
  ~SessionTest() override {
    if (!thread_.joinable()) return;
    loop_.Post([this] { session_->Close([this] { loop_.Stop(); }); });
    thread_.join();
  }

  void Start(const std::string& address) {
    Session::Options options;
    options.controller = address;
    options.backoff = {absl::Milliseconds(5), absl::Milliseconds(20), 2.0};
    options.greeting_limit = absl::Seconds(10);
    session_ = std::make_unique<Session>(loop_, options, owner_);
    loop_.Post([this] { session_->Start(); });
    thread_ = std::thread([this] { loop_.Run(); });
  }

  void Say(const v1::WorkerMessage& message) {
    loop_.Post([this, message] {
      owner_.next_ = message;
      session_->Wake();
    });
  }

  EventLoop loop_;
  FakeOwner owner_;
  std::unique_ptr<Session> session_;
  std::thread thread_;
};

v1::WorkerMessage Report(int64_t revision) {
  v1::WorkerMessage message;
  message.mutable_report()->set_plan_revision(revision);
  return message;
}

TEST_F(SessionTest, SaysHelloThenWhatTheOwnerHasToSay) {
  FakeController controller;
  Start(controller.address());
  EXPECT_EQ(controller.WaitForHello().node(), "a");
  controller.SetPlan(v1::NodePlan());
  ASSERT_TRUE(owner_.WaitForPlans(1));
  Say(Report(7));
  controller.WaitForReport([](const v1::NodeReport& r) { return r.plan_revision() == 7; });
}

TEST_F(SessionTest, ComesBackWhenTheControllerDoes) {
  auto controller = std::make_unique<FakeController>();
  const std::string address = controller->address();
  Start(address);
  controller->WaitForHello();
  controller->SetPlan(v1::NodePlan());
  ASSERT_TRUE(owner_.WaitForPlans(1));
  controller.reset();
  controller = std::make_unique<FakeController>(address);
  controller->WaitForHello();
  controller->SetPlan(v1::NodePlan());
  ASSERT_TRUE(owner_.WaitForPlans(2));
  absl::MutexLock lock(&owner_.mutex_);
  EXPECT_EQ(owner_.lost_, 1);
}

TEST_F(SessionTest, RefusedSessionIsTriedAgain) {
  FakeController controller;
  controller.Refuse(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "name taken"));
  Start(controller.address());
  controller.Refuse(std::nullopt);
  EXPECT_EQ(controller.WaitForHello().node(), "a");
}

TEST_F(SessionTest, OfSeveralControllersTheOneThatAnswersIsTaken) {
  FakeController controller;
  Start("127.0.0.1:1," + controller.address());
  EXPECT_EQ(controller.WaitForHello().node(), "a");
}

TEST_F(SessionTest, ALeaderThatAStandbyNamesIsFollowed) {
  FakeController standby;
  FakeController leader;
  standby.Refuse(NotLeader(leader.address()));
  // The leader is not in the list of controllers.
  Start(standby.address());
  EXPECT_EQ(leader.WaitForHello().node(), "a");
}

TEST_F(SessionTest, GoesOnWithTheNextLeader) {
  auto first = std::make_unique<FakeController>();
  auto second = std::make_unique<FakeController>();
  second->Refuse(NotLeader(first->address()));
  Start(first->address() + "," + second->address());
  first->SetPlan(v1::NodePlan());
  ASSERT_TRUE(owner_.WaitForPlans(1));
  second->Refuse(std::nullopt);
  second->SetPlan(v1::NodePlan());
  first.reset();
  ASSERT_TRUE(owner_.WaitForPlans(2));
}

TEST_F(SessionTest, TellsWhatThoseThatStandByAnswerAndWhenTheyWereAsked) {
  FakeController first;
  FakeController second;
  first.Refuse(NotLeader(""));
  second.Refuse(NotLeader(""));
  FakeController refuses;
  refuses.Refuse(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stands by, it says"));
  const absl::Time begin = BootNow();
  Start(refuses.address() + "," + first.address() + ",127.0.0.1:1," + second.address());
  ASSERT_TRUE(owner_.WaitForStandbys(2));
  const absl::Time end = BootNow();
  absl::MutexLock lock(&owner_.mutex_);
  EXPECT_EQ(owner_.answers_.size(), 2) << "no other answer counts";
  for (const FakeController* standby : {&first, &second}) {
    EXPECT_EQ(owner_.answers_[standby->address()].leader, "");
    EXPECT_GE(owner_.answers_[standby->address()].sent, begin);
    EXPECT_LE(owner_.answers_[standby->address()].sent, end);
  }
}

TEST_F(SessionTest, TellsWhomAStandbyHasNamed) {
  FakeController standby;
  standby.Refuse(NotLeader("127.0.0.1:1"));
  Start(standby.address());
  ASSERT_TRUE(owner_.WaitForStandbys(1));
  absl::MutexLock lock(&owner_.mutex_);
  EXPECT_EQ(owner_.answers_[standby.address()].leader, "127.0.0.1:1");
}

TEST_F(SessionTest, ControllerOfAnotherClusterIsNotListenedTo) {
  FakeController controller("127.0.0.1:0", "cluster-2");
  controller.SetPlan(v1::NodePlan());
  Start(controller.address());
  controller.WaitForHello(3);
  absl::MutexLock lock(&owner_.mutex_);
  EXPECT_TRUE(owner_.received_.empty());
  EXPECT_EQ(owner_.lost_, 0);
}

TEST_F(SessionTest, ClosesWithoutAController) { Start("127.0.0.1:1"); }

}  // namespace
}  // namespace paceline
