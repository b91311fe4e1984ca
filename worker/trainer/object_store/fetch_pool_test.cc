#include "worker/trainer/object_store/fetch_pool.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"

namespace paceline {
namespace {

// Of all threads, as many can be started as `left` says.
FetchPool::StartThread Limited(int* left) {
  return [left](std::function<void()> run) {
    if ((*left)-- <= 0) throw std::system_error(EAGAIN, std::system_category());
    return std::thread(std::move(run));
  };
}

TEST(FetchPoolTest, ThreadsThatCannotBeStartedRefuseTheTask) {
  int left = 0;
  FetchPool pool(/*threads=*/4, /*most_waiting=*/8, Limited(&left));
  const int owner = 0;
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(pool.Add(&owner, [] {}));
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("object_threads_missing threads=0");
  EXPECT_NE(first, said.npos) << said;
  EXPECT_EQ(said.find("object_threads_missing", first + 1), said.npos) << "is said once";
  left = 1;
  absl::Notification done;
  EXPECT_TRUE(pool.Add(&owner, [&] { done.Notify(); }));
  done.WaitForNotification();
  pool.Remove(&owner);
}

TEST(FetchPoolTest, ATaskThatThrowsEndsNothing) {
  FetchPool pool(/*threads=*/1, /*most_waiting=*/8);
  const int first = 0;
  const int second = 0;
  absl::Notification thrown;
  EXPECT_TRUE(pool.Add(&first, [&] {
    thrown.Notify();
    throw std::bad_alloc();
  }));
  thrown.WaitForNotification();
  pool.Remove(&first);  // Which waits for its end.
  absl::Notification done;
  EXPECT_TRUE(pool.Add(&second, [&] { done.Notify(); }));
  done.WaitForNotification();
  pool.Remove(&second);
}

}  // namespace
}  // namespace paceline
