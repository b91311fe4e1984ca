#include "worker/trainer/comm/shared_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

namespace paceline {
namespace {

constexpr size_t kBytes = 1 << 20;

TEST(SharedMemoryTest, IsTheSameForAllWhoOpenIt) {
  absl::StatusOr<SharedMemory> made = SharedMemory::Make(kBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->data()[kBytes - 1], 0);
  absl::StatusOr<SharedMemory> opened = SharedMemory::Open(made->address(), kBytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  made->data()[7] = 'x';
  EXPECT_EQ(opened->data()[7], 'x');
}

TEST(SharedMemoryTest, WhatIsSomethingElseIsNotOpened) {
  absl::StatusOr<SharedMemory> made = SharedMemory::Make(kBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  SharedMemory::Address address = made->address();
  EXPECT_EQ(SharedMemory::Open(address, 2 * kBytes).status().code(),
            absl::StatusCode::kUnavailable);
  SharedMemory::Address of_another_machine = address;
  ++of_another_machine.token;
  EXPECT_EQ(SharedMemory::Open(of_another_machine, kBytes).status().code(),
            absl::StatusCode::kUnavailable);
  address.file = 1'000'000;
  EXPECT_EQ(SharedMemory::Open(address, kBytes).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SharedMemoryTest, APlaceIsTakenByOneUntilItsEnd) {
  absl::StatusOr<SharedMemory> first = SharedMemory::Make(kBytes);
  ASSERT_TRUE(first.ok()) << first.status();
  std::optional<SharedMemory> second = *SharedMemory::Open(first->address(), kBytes);
  EXPECT_FALSE(first->IsTaken(3));
  EXPECT_TRUE(second->TakePlace(3).ok());
  EXPECT_TRUE(first->IsTaken(3));
  EXPECT_FALSE(first->IsTaken(2));
  EXPECT_FALSE(first->TakePlace(3).ok());
  second.reset();
  EXPECT_FALSE(first->IsTaken(3));
}

TEST(SharedMemoryTest, AProcessThatIsKilledLeavesItsPlace) {
  absl::StatusOr<SharedMemory> made = SharedMemory::Make(kBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  const SharedMemory::Address address = made->address();
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<SharedMemory> own = SharedMemory::Open(address, kBytes);
    const bool taken = own.ok() && own->TakePlace(1).ok();
    if (write(pipes[1], taken ? "y" : "n", 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(pipes[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_TRUE(made->IsTaken(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(made->IsTaken(1));
}

TEST(SharedMemoryTest, TheNodeHasOneKey) {
  EXPECT_EQ(NodeKey(), NodeKey());
  EXPECT_NE(NodeKey(), 0U);
}

}  // namespace
}  // namespace paceline
