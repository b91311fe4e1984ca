#include "worker/trainer/copies/state_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/copies/copy_link.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

constexpr int64_t kGeneration = 5;

class TinyModel : public Model {
 public:
  explicit TinyModel(float value) : Model(at::kCPU) {
    AddParameter("weight", at::full({1000}, value));
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return parameters()[0].tensor.sum(); }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }

  void Set(float value) {
    const at::NoGradGuard no_grad;
    at::Tensor(parameters()[0].tensor).fill_(value);
  }
  float value() const { return parameters()[0].tensor.select(0, 0).item<float>(); }
};

// Ranks in a ring, each the buddy of the one before.
CopyOrders OrdersOf(int rank, int ranks) {
  CopyOrders orders;
  orders.generation = kGeneration;
  orders.seat = 10 + rank;
  orders.buddy_rank = (rank + 1) % ranks;
  orders.ward_rank = (rank + ranks - 1) % ranks;
  return orders;
}

// Whose copies to the host fail as `fail` does.
class FailingPlatform : public CpuPlatform {
 public:
  std::unique_ptr<HostCopy> StartHostCopy(const std::vector<HostCopyPiece>& pieces) override {
    if (fail) fail();
    return CpuPlatform::StartHostCopy(pieces);
  }

  std::function<void()> fail;
};

// A rank that copies after each tenth of 100 steps. Its state is a number.
class Rank {
  absl::Mutex mu_;
  CopyReport report_ ABSL_GUARDED_BY(mu_);

 public:
  Rank(int rank, int ranks, double send_limit = 0)
      : orders(OrdersOf(rank, ranks)),
        model(static_cast<float>(rank)),
        optimizer(MakeOptimizer(OptimizerConfig(), TensorsOf(model.parameters()))) {
    StateCopies::Options options;
    options.every_steps = 10;
    options.steps = 100;
    options.send_limit = send_limit;
    options.on_report = [this](const CopyReport& report) {
      const absl::MutexLock lock(&mu_);
      report_ = report;
    };
    copies = std::make_unique<StateCopies>(platform, options);
    copies->Enter(orders);
  }

  void Copy(int64_t step) {
    ASSERT_TRUE(copies->IsDue(step));
    copies->Copy(step, orders, {model, *optimizer, nullptr}, ImageFacts());
    copies->BeforeChange();
  }

  // The number in a copy that it holds; -1: it has none.
  float ValueIn(const CopyLabel& label) {
    const absl::string_view image = copies->ImageOf(label);
    TinyModel read(-1);
    const auto its = MakeOptimizer(OptimizerConfig(), TensorsOf(read.parameters()));
    ImageFacts facts;
    const bool restored =
        RestoreImage(image.data(), image.size(), {read, *its, nullptr}, &facts).ok();
    EXPECT_EQ(restored, !image.empty());
    return read.value();
  }

  void WaitUntilSettled(int64_t step) {
    const auto is_settled = [this, step]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return report_.settled_step >= step;
    };
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&is_settled));
  }

  CopyReport report() {
    const absl::MutexLock lock(&mu_);
    return report_;
  }

  CopyOrders orders;
  TinyModel model;
  std::unique_ptr<Optimizer> optimizer;
  FailingPlatform platform;
  std::unique_ptr<StateCopies> copies;
};

TEST(StateCopiesTest, EachCopyIsThereTwiceAsTheStateWasThen) {
  for (const int ranks : {2, 3}) {
    RunRanks(Ranks(ranks), [&](const TrainerConfig& config, Groups& groups) {
      const int me = config.rank();
      Rank rank(me, ranks);
      rank.copies->Begin(ConnectCopies(groups, me, rank.orders), /*furthest=*/10);
      EXPECT_FALSE(rank.copies->IsDue(10)) << "another rank has done this step already";
      EXPECT_TRUE(rank.copies->IsDue(11)) << "the first step of the generation";
      EXPECT_FALSE(rank.copies->IsDue(15));
      EXPECT_FALSE(rank.copies->IsDue(100)) << "all is done";
      rank.Copy(20);
      rank.model.Set(-7);
      rank.copies->Leave();
      EXPECT_EQ(rank.report().copied_step, 20);
      EXPECT_EQ(rank.ValueIn({10 + me, 20, kGeneration}), static_cast<float>(me));
      const int ward = rank.orders.ward_rank;
      EXPECT_EQ(rank.ValueIn({10 + ward, 20, kGeneration}), static_cast<float>(ward));
      EXPECT_TRUE(rank.copies->ImageOf({10 + me, 30, kGeneration}).empty());
    });
  }
}

TEST(StateCopiesTest, ACopyThatIsNotSettledIsNotReplaced) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const int me = config.rank();
    Rank rank(me, 2);
    rank.copies->Begin(ConnectCopies(groups, me, rank.orders), /*furthest=*/0);
    rank.Copy(10);
    rank.model.Set(-7);
    rank.Copy(20);
    rank.copies->Leave();
    EXPECT_EQ(rank.report().copied_step, 10);
    EXPECT_EQ(rank.report().settled_step, 20);
    EXPECT_EQ(rank.ValueIn({10 + me, 10, kGeneration}), static_cast<float>(me));
    EXPECT_TRUE(rank.copies->ImageOf({10 + me, 20, kGeneration}).empty());
  });
}

TEST(StateCopiesTest, WhoLeavesDoesNotKeepToTheLimit) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const int me = config.rank();
    Rank rank(me, 2, /*send_limit=*/100);
    rank.copies->Begin(ConnectCopies(groups, me, rank.orders), /*furthest=*/0);
    const absl::Time begun = absl::Now();
    rank.Copy(10);
    rank.copies->Leave();
    EXPECT_LT(absl::Now() - begun, absl::Seconds(20)) << "the first 4 KiB alone take 41 s";
    EXPECT_EQ(rank.report().copied_step, 10);
    EXPECT_EQ(rank.ValueIn({10 + me, 10, kGeneration}), static_cast<float>(me));
  });
}

TEST(StateCopiesTest, ACopyWithoutMemoryIsLeftOutAndTheNextOneIsMade) {
  const std::vector<std::function<void()>> failures = {
      [] { throw std::bad_alloc(); },
      [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate"); },
      [] { TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried"); }};
  for (const std::function<void()>& failure : failures) {
    RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
      const int me = config.rank();
      Rank rank(me, 2);
      const auto links = ConnectCopies(groups, me, rank.orders);
      rank.copies->Begin(links, /*furthest=*/0);
      if (me == 0) rank.platform.fail = failure;
      rank.Copy(10);
      rank.copies->Leave();
      EXPECT_EQ(rank.report().copied_step, me == 0 ? 0 : 10);
      EXPECT_EQ(rank.report().settled_step, 10);
      EXPECT_EQ(rank.report().error, me == 0 ? "there is no memory for it" : "");
      rank.platform.fail = nullptr;
      rank.orders.settled_step = 10;
      rank.copies->Begin(links, /*furthest=*/10);
      rank.Copy(20);
      rank.copies->Leave();
      EXPECT_EQ(rank.report().copied_step, 20);
      EXPECT_EQ(rank.report().error, "");
    });
  }
}

TEST(StateCopiesTest, AnotherErrorOfTheDeviceEndsTheTraining) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    Rank rank(config.rank(), 2);
    rank.copies->Begin(ConnectCopies(groups, config.rank(), rank.orders), /*furthest=*/0);
    groups.all().Sum(at::zeros({1}));  // Both are connected.
    rank.platform.fail = [] { TORCH_CHECK(false, "CUDA error: an illegal memory access"); };
    EXPECT_THROW(rank.Copy(10), c10::Error);
  });
}

TEST(StateCopiesTest, AHostWithoutMemoryForTheCopyOfAnotherRankSaysSo) {
  Rank rank(0, 2);
  const absl::StatusOr<char*> memory = rank.copies->BeginFetch({10, 20, 4}, size_t{1} << 50);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted) << memory.status();
  EXPECT_THAT(std::string(memory.status().message()),
              testing::StartsWith("out of host memory: the copy of seat 10 after step 20 takes"));
  rank.copies->EndFetch(/*whole=*/false);
}

TEST(StateCopiesTest, TheEndWaitsForCopiesThatOthersSendAndKeep) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    Rank rank(config.rank(), 2);
    rank.copies->Begin(ConnectCopies(groups, config.rank(), rank.orders), /*furthest=*/0);
    rank.Copy(10);
    rank.copies->Finish(absl::InfiniteDuration());
    EXPECT_EQ(rank.report().copied_step, 10);
    const int ward = rank.orders.ward_rank;
    EXPECT_EQ(rank.ValueIn({10 + ward, 10, kGeneration}), static_cast<float>(ward));
  });
}

TEST(StateCopiesTest, TheEndDoesNotWaitForWhoMakesNoCopy) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const int me = config.rank();
    Rank rank(me, 2);
    const auto links = ConnectCopies(groups, me, rank.orders);
    rank.copies->Begin(links, /*furthest=*/0);
    if (me == 0) {
      const absl::Time begun = absl::Now();
      rank.Copy(10);
      rank.copies->Finish(absl::ZeroDuration());
      EXPECT_LT(absl::Now() - begun, absl::Seconds(15)) << "collectives time out after 20 s";
      EXPECT_EQ(rank.report().settled_step, 0) << "it says that a copy has failed";
    }
    groups.all().Sum(at::zeros({1}));  // Rank 1 keeps its links until then.
  });
}

TEST(StateCopiesTest, ARankThatIsGoneEndsCopiesAndNothingElse) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const int me = config.rank();
    Rank rank(me, 2);
    const auto links = ConnectCopies(groups, me, rank.orders);
    groups.all().Sum(at::zeros({1}));  // Both are connected.
    if (me == 1) return;               // Its connections are closed.
    rank.copies->Begin(links, /*furthest=*/0);
    rank.Copy(10);
    rank.copies->Leave();
    EXPECT_EQ(rank.report().copied_step, 0);
    EXPECT_EQ(rank.report().settled_step, 10);
    EXPECT_NE(rank.report().error, "");
    EXPECT_FALSE(groups.has_failed()) << "later errors would be taken for those of collectives";
  });
}

// If the sender's end closes, it knows before its next copy, which is made over a new connection;
// if the receiver's does, that costs one copy.
TEST(StateCopiesTest, AConnectionThatHasBrokenIsMadeAnewForTheNextCopy) {
  for (const bool receiver_closes : {false, true}) {
    SCOPED_TRACE(receiver_closes);
    RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
      const int me = config.rank();
      Rank rank(me, 2);
      const auto links = ConnectCopies(groups, me, rank.orders);
      groups.all().Sum(at::zeros({1}));  // Both are connected.
      if (receiver_closes && me == 1) links->from_ward->Close();
      if (!receiver_closes && me == 0) links->to_buddy->Close();
      rank.copies->Begin(links, /*furthest=*/0);
      rank.Copy(10);
      rank.WaitUntilSettled(10);
      const bool fails = receiver_closes && me == 0;
      EXPECT_EQ(rank.report().copied_step, fails ? 0 : 10);
      EXPECT_EQ(rank.report().failed_step, fails ? 10 : 0);
      rank.orders.settled_step = 10;
      rank.Copy(20);
      rank.WaitUntilSettled(20);
      groups.all().Sum(at::zeros({1}));  // Both have all.
      rank.copies->Leave();
      EXPECT_EQ(rank.report().copied_step, 20);
      EXPECT_EQ(rank.report().error, "");
      EXPECT_EQ(rank.ValueIn({10 + me, 20, kGeneration}), static_cast<float>(me));
      const int ward = rank.orders.ward_rank;
      EXPECT_EQ(rank.ValueIn({10 + ward, 20, kGeneration}), static_cast<float>(ward));
      EXPECT_FALSE(groups.has_failed());
    });
  }
}

// Else the room would be taken until the ranks change, and no later copy would find one.
TEST(StateCopiesTest, ARoomThatWasPromisedIsGivenBackIfTheConnectionBreaksThen) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const bool sends = config.rank() == 0;
    const auto links = ConnectCopies(groups, config.rank(), OrdersOf(config.rank(), 2));
    groups.all().Sum(at::zeros({1}));  // Both are connected.
    if (sends) {
      CopyHeader header{};
      header.bytes = 8;
      at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof(header))}, at::kByte);
      std::memcpy(bytes.mutable_data_ptr(), &header, sizeof(header));
      links->to_buddy->pair()->Send(bytes, links->to_buddy->peer());
      groups.all().Sum(at::zeros({1}));
      links->to_buddy->Close();
      groups.Say("closed");
    } else {
      const CopyHeader header = ReceiveHeader(*links->from_ward);
      groups.all().Sum(at::zeros({1}));
      std::string memory(8, ' ');
      std::vector<bool> finished;
      EXPECT_ANY_THROW(ReceiveCopy(
          *links->from_ward, header,
          [&](const CopyHeader&) {
            while (!groups.WasSaid("closed")) absl::SleepFor(absl::Milliseconds(1));
            return memory.data();
          },
          [&](bool whole) { finished.push_back(whole); }));
      EXPECT_EQ(finished, std::vector<bool>{false});
    }
    groups.all().Sum(at::zeros({1}));
  });
}

// A rank that leaves gives the new connection up; whoever comes later does not wait for it.
TEST(StateCopiesTest, OnlyAnOfferThatStandsIsTaken) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const bool sends = config.rank() == 0;
    const auto links = ConnectCopies(groups, config.rank(), OrdersOf(config.rank(), 2));
    groups.all().Sum(at::zeros({1}));  // Both are connected.
    CopyLink& link = sends ? *links->to_buddy : *links->from_ward;
    link.Close();
    if (sends) {
      EXPECT_FALSE(link.Reconnect([&] { return groups.WasSaid("copies-of-0/offered/1"); }));
      EXPECT_EQ(link.pair(), nullptr);
      while (!groups.WasSaid("copies-of-0/withdrawn/1")) absl::SleepFor(absl::Milliseconds(1));
    }
    groups.all().Sum(at::zeros({1}));
    EXPECT_TRUE(link.Reconnect([] { return false; }));
    EXPECT_NE(link.pair(), nullptr);
    groups.all().Sum(at::zeros({1}));  // Both have it.
  });
}

}  // namespace
}  // namespace paceline
