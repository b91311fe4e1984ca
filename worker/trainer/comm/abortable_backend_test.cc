#include "worker/trainer/comm/abortable_backend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

using c10d::Backend;
using testing::ElementsAre;
using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

std::vector<float> Values(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

at::Tensor Filled(int64_t count, int value) { return at::full({count}, value, at::kFloat); }

// Ten per rank, and a number in it.
at::Tensor OfRank(int rank) { return at::arange(4, at::kFloat).add(10 * rank); }

c10::intrusive_ptr<Backend> BackendOf(Groups& groups) {
  return groups.all().torch_group()->getBackend(c10::kCPU);
}

TEST(AbortableBackendTest, ReductionsReachGloo) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const c10::intrusive_ptr<Backend> backend = BackendOf(groups);
    const int rank = config.rank();

    Tensors one{OfRank(rank)};
    backend->reduce(one)->wait();
    if (rank == 0) {
      EXPECT_THAT(Values(one[0]), ElementsAre(10, 12, 14, 16));
    }

    Tensors two{OfRank(rank), Filled(1, rank)};
    backend->allreduce_coalesced(two)->wait();
    EXPECT_THAT(Values(two[0]), ElementsAre(10, 12, 14, 16));
    EXPECT_THAT(Values(two[1]), ElementsAre(1));
    EXPECT_FALSE(groups.has_failed());
  });
}

TEST(AbortableBackendTest, EachGetsItsPartOfASum) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const c10::intrusive_ptr<Backend> backend = BackendOf(groups);
    const int rank = config.rank();
    const auto part = rank == 0 ? ElementsAre(10, 12) : ElementsAre(14, 16);

    at::Tensor output = Filled(2, 0);
    at::Tensor input = OfRank(rank);
    backend->_reduce_scatter_base(output, input)->wait();
    EXPECT_THAT(Values(output), part);
    EXPECT_THAT(Values(input), ElementsAre(10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3));

    Tensors outputs{Filled(2, 0), Filled(1, 0)};
    Tensors inputs{OfRank(rank), Filled(2, 1)};
    const WorkPointer scattered = backend->reduce_scatter_tensor_coalesced(outputs, inputs);
    scattered->wait();
    EXPECT_THAT(Values(outputs[0]), part);
    EXPECT_THAT(Values(outputs[1]), ElementsAre(2));
    outputs[0].fill_(7);
    scattered->wait();
    EXPECT_THAT(Values(outputs[0]), ElementsAre(7, 7));

    Tensors of_list{Filled(2, 0)};
    std::vector<Tensors> lists{{OfRank(rank).slice(0, 0, 2), OfRank(rank).slice(0, 2, 4)}};
    backend->reduce_scatter(of_list, lists)->wait();
    EXPECT_THAT(Values(of_list[0]), part);

    c10d::ReduceScatterOptions mean;  // As FSDP2 asks for.
    mean.reduceOp = c10d::ReduceOp::AVG;
    backend->_reduce_scatter_base(output, input, mean)->wait();
    EXPECT_THAT(Values(output), rank == 0 ? ElementsAre(5, 6) : ElementsAre(7, 8));

    at::Tensor too_large = Filled(3, 0);
    EXPECT_THROW(backend->_reduce_scatter_base(too_large, input), c10::Error);
    EXPECT_FALSE(groups.has_failed());
  });
}

TEST(AbortableBackendTest, MovesOfTensorsReachGloo) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const c10::intrusive_ptr<Backend> backend = BackendOf(groups);
    const int rank = config.rank();

    Tensors scattered{Filled(1, 0)};
    std::vector<Tensors> to_scatter;
    if (rank == 0) to_scatter.push_back({Filled(1, 5), Filled(1, 6)});
    backend->scatter(scattered, to_scatter)->wait();
    EXPECT_THAT(Values(scattered[0]), ElementsAre(5 + rank));

    Tensors gathered{Filled(4, 0)};
    Tensors inputs{Filled(2, rank)};
    backend->allgather_into_tensor_coalesced(gathered, inputs)->wait();
    EXPECT_THAT(Values(gathered[0]), ElementsAre(0, 0, 1, 1));

    at::Tensor output = Filled(2, 0);
    at::Tensor input = at::arange(2, at::kFloat).add(10 * rank);
    std::vector<int64_t> equal;
    backend->alltoall_base(output, input, equal, equal)->wait();
    EXPECT_THAT(Values(output), ElementsAre(rank, 10 + rank));

    // Gloo has no such collective.
    Tensors outputs{Filled(1, 0), Filled(1, 0)};
    Tensors parts{Filled(1, 0), Filled(1, 0)};
    EXPECT_THROW(backend->alltoall(outputs, parts), c10::Error);

    Tensors message{Filled(1, 7 * (1 - rank))};
    if (rank == 0) {
      backend->send(message, 1, /*tag=*/3)->wait();
    } else {
      const WorkPointer received = backend->recvAnysource(message, /*tag=*/3);
      received->wait();
      EXPECT_EQ(received->sourceRank(), 0);
      EXPECT_THAT(Values(message[0]), ElementsAre(7));
    }
    backend->monitoredBarrier(c10d::BarrierOptions());
    EXPECT_FALSE(groups.has_failed());
  });
}

// Rank 1 never comes.
TEST(AbortableBackendTest, AnAbortEndsEachCollective) {
  const std::vector<std::function<WorkPointer(Backend&)>> collectives = {
      [](Backend& backend) {
        Tensors tensors{Filled(1, 1)};
        return backend.reduce(tensors);
      },
      [](Backend& backend) {
        at::Tensor output = Filled(1, 0);
        at::Tensor input = Filled(2, 0);
        return backend._reduce_scatter_base(output, input);
      },
      [](Backend& backend) {
        Tensors outputs{Filled(1, 0)};
        std::vector<Tensors> inputs;
        c10d::ScatterOptions options;
        options.rootRank = 1;
        return backend.scatter(outputs, inputs, options);
      },
      [](Backend& backend) {
        Tensors outputs{Filled(2, 0)};
        Tensors inputs{Filled(1, 0)};
        return backend.allgather_into_tensor_coalesced(outputs, inputs);
      },
      [](Backend& backend) {
        at::Tensor output = Filled(2, 0);
        at::Tensor input = Filled(2, 0);
        std::vector<int64_t> equal;
        return backend.alltoall_base(output, input, equal, equal);
      },
      [](Backend& backend) {
        Tensors tensors{Filled(1, 0)};
        return backend.recvAnysource(tensors, /*tag=*/0);
      },
  };
  for (size_t i = 0; i < collectives.size(); ++i) {
    absl::Notification ended;
    RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
      if (config.rank() == 1) return ended.WaitForNotification();
      const c10::intrusive_ptr<Backend> backend = BackendOf(groups);
      const WorkPointer work = collectives[i](*backend);
      EXPECT_FALSE(groups.has_failed()) << i;
      std::thread aborts([&] {
        absl::SleepFor(absl::Milliseconds(50));
        groups.Abort();
      });
      EXPECT_THROW(work->wait(), std::exception) << i;
      aborts.join();
      EXPECT_TRUE(groups.has_failed()) << i;
      ended.Notify();
    });
  }
}

// The error comes from the connection, before any abort.
TEST(AbortableBackendTest, AFailedCollectiveIsKnownOnceItsErrorIs) {
  absl::Notification connected;
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    groups.all().Sum(Filled(1, 1));
    if (config.rank() == 1) {
      connected.Notify();
      return;  // It closes its connections.
    }
    connected.WaitForNotification();
    Tensors tensors{Filled(1, 1)};
    const WorkPointer work = BackendOf(groups)->allreduce(tensors);
    EXPECT_THROW(work->wait(), std::exception);
    EXPECT_TRUE(groups.has_failed());
  });
}

}  // namespace
}  // namespace paceline
