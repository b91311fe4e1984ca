#include "worker/trainer/comm/save_agreement.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace paceline {
namespace {

// Answers promises as the test decides.
class Ranks {
 public:
  SaveAgreement::Events events() {
    return {[this](int64_t order, int64_t promise) { return OnPromise(order, promise); },
            [this](int64_t order, const std::string& why) {
              const absl::MutexLock lock(&mu_);
              given_up_.emplace_back(order, why);
            }};
  }

  // The promise for the current order.
  int64_t AwaitPromise() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](Ranks* self) { return self->promise_.has_value(); }, this));
    return *promise_;
  }

  void Answer(std::optional<int64_t> step) {
    const absl::MutexLock lock(&mu_);
    answer_ = step;
    answered_ = true;
  }
  void Break() {
    const absl::MutexLock lock(&mu_);
    broken_ = answered_ = true;
  }

  std::vector<int64_t> given_up() {
    const absl::MutexLock lock(&mu_);
    std::vector<int64_t> orders;
    for (const auto& [order, why] : given_up_) orders.push_back(order);
    return orders;
  }

 private:
  std::optional<int64_t> OnPromise(int64_t /*order*/, int64_t promise) {
    const absl::MutexLock lock(&mu_);
    promise_ = promise;
    mu_.Await(absl::Condition(&answered_));
    answered_ = false;
    promise_.reset();
    if (broken_) throw std::runtime_error("the store is gone");
    return answer_;
  }

  absl::Mutex mu_;
  std::optional<int64_t> promise_;
  std::optional<int64_t> answer_;
  bool answered_ = false;
  bool broken_ = false;
  std::vector<std::pair<int64_t, std::string>> given_up_;
};

std::optional<SaveOrder> After(SaveAgreement& agreement, int64_t step) {
  absl::Duration waited;
  return agreement.AfterStep(step, &waited);
}

TEST(SaveAgreementTest, IsDueAtTheAgreedStep) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 4);
  EXPECT_FALSE(After(agreement, 5).has_value());
  agreement.Propose({3, true});
  const int64_t promise = ranks.AwaitPromise();
  EXPECT_GT(promise, 5);
  ranks.Answer(promise + 2);
  for (int64_t step = 6; step < promise + 2; ++step) {
    EXPECT_FALSE(After(agreement, step).has_value()) << step;
  }
  const std::optional<SaveOrder> due = After(agreement, promise + 2);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->number, 3);
  EXPECT_TRUE(due->now);
  EXPECT_FALSE(After(agreement, promise + 3).has_value()) << "only once";
}

TEST(SaveAgreementTest, WaitsAtItsPromise) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 0);
  agreement.Propose({1, false});
  const int64_t promise = ranks.AwaitPromise();
  EXPECT_EQ(promise, 1) << "without a known pace the next step";
  absl::Notification begun;
  absl::Notification passed;
  std::thread training([&] {
    absl::Duration waited;
    begun.Notify();
    EXPECT_TRUE(agreement.AfterStep(promise, &waited).has_value());
    EXPECT_GT(waited, absl::ZeroDuration());
    passed.Notify();
  });
  begun.WaitForNotification();
  EXPECT_FALSE(passed.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
  ranks.Answer(promise);
  training.join();
}

TEST(SaveAgreementTest, PromisesAboutASecondAhead) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 0);
  const absl::Time begun = absl::Now();
  After(agreement, 1);
  absl::SleepFor(absl::Milliseconds(50));
  After(agreement, 2);
  const absl::Duration longest = absl::Now() - begun;
  agreement.Propose({1, false});
  const int64_t promise = ranks.AwaitPromise();
  EXPECT_GT(static_cast<double>(promise), 2 + absl::FDivDuration(absl::Milliseconds(500), longest));
  EXPECT_LE(promise, 2 + 20);  // At 50 ms per step.
  ranks.Answer(promise);
}

TEST(SaveAgreementTest, WithoutAllRanksTrainingGoesOn) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 0);
  agreement.Propose({1, false});
  const int64_t promise = ranks.AwaitPromise();
  ranks.Answer(std::nullopt);
  EXPECT_FALSE(After(agreement, promise).has_value());
  EXPECT_FALSE(After(agreement, promise + 1).has_value());
  EXPECT_EQ(ranks.given_up(), std::vector<int64_t>{1});

  agreement.Propose({2, false});
  ranks.Answer(ranks.AwaitPromise());
  EXPECT_EQ(agreement.Close()->number, 2) << "the next order has its own chance";
}

TEST(SaveAgreementTest, OldOrdersAreIgnored) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 0);
  agreement.Propose({2, false});
  ranks.Answer(ranks.AwaitPromise());
  agreement.Propose({2, false});
  agreement.Propose({1, false});
  agreement.Propose({0, false});
  EXPECT_EQ(agreement.Close()->number, 2);
  EXPECT_TRUE(ranks.given_up().empty());
}

TEST(SaveAgreementTest, ClosedGivesUpWhatComesLater) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 10);
  EXPECT_FALSE(agreement.Close().has_value());
  agreement.Propose({1, true});
  EXPECT_EQ(ranks.given_up(), std::vector<int64_t>{1});
}

TEST(SaveAgreementTest, TheTrainingThreadHearsOfABrokenStore) {
  Ranks ranks;
  SaveAgreement agreement(ranks.events(), 0);
  agreement.Propose({1, false});
  const int64_t promise = ranks.AwaitPromise();
  ranks.Break();
  EXPECT_THROW(After(agreement, promise), std::runtime_error);
}

}  // namespace
}  // namespace paceline
