#include "worker/trainer/comm/group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/comm/group_parts.h"

namespace paceline {
namespace {

using c10d::ProcessGroup;

constexpr size_t kBroadcastBytes = 250 << 20;

// Removes the position and backtrace from "[/some/file.cc:12] text".
absl::string_view WithoutPosition(absl::string_view what) {
  what = what.substr(0, what.find('\n'));
  const size_t end = what.find("] ");
  return absl::StartsWith(what, "[/") && end != what.npos ? what.substr(end + 2) : what;
}

// Throws if a collective that looks finished on the device is not. `Parts`: Group::Parts.
template <typename Parts>
void ThrowIfBrokenOff(c10d::Work& work, const Parts& parts) {
  // Also checks the communicator and keeps its error.
  const bool completed = work.isCompleted();
  if (work.exception() != nullptr) std::rethrow_exception(work.exception());
  // `aborted` is set before a collective is broken off.
  const bool aborted = parts.aborted || parts.backend->getError() != c10d::ErrorType::SUCCESS;
  if (aborted || !completed) throw std::runtime_error("it was broken off");
}

// Begins the collective `name` by `begin`, which returns its work, and lets it go on. `result` is
// what it writes. Returns what waits for it.
template <typename Parts, typename F>
std::function<void()> Begin(const char* name, const Parts& parts, at::Tensor result, F begin) {
  c10::intrusive_ptr<c10d::Work> work;
  Collective(name, [&] { work = begin(); });
  return [name, &parts, result = std::move(result), work] {
    Collective(name, [&] {
      work->wait();
      if (result.is_cpu()) return;
      // Only the stream waits: until the device has the result, one that was broken off looks
      // whole.
      result.narrow(0, 0, 1).cpu();
      ThrowIfBrokenOff(*work, parts);
    });
  };
}

constexpr char kSum[] = "sum over the ranks";
constexpr char kExchange[] = "exchange between the ranks";
constexpr char kGathering[] = "gathering from the ranks";

}  // namespace

CollectiveError::CollectiveError(absl::string_view collective, absl::string_view what)
    : std::runtime_error(absl::StrCat(collective, ": ", WithoutPosition(what))) {}

Group::Group(std::vector<int> ranks, std::unique_ptr<Parts> parts)
    : ranks_(std::move(ranks)), parts_(std::move(parts)) {}

Group::~Group() = default;

void Group::Sum(at::Tensor tensor) {
  if (size() == 1) return;
  Collective(kSum, [&] {
    if (parts_->node_sum != nullptr && NodeSum::Takes(tensor)) {
      return parts_->node_sum->Sum(&Group::Sum, tensor);
    }
    std::vector<at::Tensor> tensors{std::move(tensor)};
    parts_->group->allreduce(tensors)->wait();
  });
}

void Group::SumOnDevice(at::Tensor tensor, const std::function<void()>& wait) {
  if (size() == 1) return;
  Collective(kSum, [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    const c10::intrusive_ptr<c10d::Work> work = parts_->group->allreduce(tensors);
    work->wait();  // Only the stream waits.
    wait();
    ThrowIfBrokenOff(*work, *parts_);
  });
}

std::function<void()> Group::BeginSum(at::Tensor tensor) {
  if (size() == 1) return [] {};
  return Begin(kSum, *parts_, tensor, [&] {
    std::vector<at::Tensor> tensors{tensor};
    return parts_->group->allreduce(tensors);
  });
}

std::function<void()> Group::BeginExchangeParts(at::Tensor output, at::Tensor input) {
  if (size() == 1) {
    output.copy_(input);
    return [] {};
  }
  return Begin(kExchange, *parts_, output, [&] {
    std::vector<int64_t> equal_splits;
    return parts_->group->alltoall_base(output, input, equal_splits, equal_splits);
  });
}

std::function<void()> Group::BeginGather(at::Tensor output, at::Tensor input) {
  if (size() == 1) {
    output.copy_(input);
    return [] {};
  }
  return Begin(kGathering, *parts_, output,
               [&] { return parts_->group->_allgather_base(output, input); });
}

void Group::SumFew(at::Tensor tensor) {
  if (size() == 1) return;
  Collective("sum of a few numbers", [&] {
    if (parts_->node_sum != nullptr && NodeSum::Takes(tensor)) {
      return parts_->node_sum->Sum(&Group::SumFew, tensor);
    }
    const bool is_first = parts_->group->getRank() == 0;
    at::Tensor all;
    std::vector<std::vector<at::Tensor>> gathered;
    if (is_first) {
      all = at::empty({size(), tensor.numel()}, tensor.options());
      gathered.push_back(all.unbind());
    }
    std::vector<at::Tensor> tensors{tensor};
    parts_->group->gather(gathered, tensors)->wait();
    if (is_first) at::sum_out(tensor, all, /*dim=*/0);
    parts_->group->broadcast(tensors)->wait();
  });
}

void Group::ExchangeParts(at::Tensor output, at::Tensor input) {
  if (size() == 1) {
    output.copy_(input);
    return;
  }
  Collective(kExchange, [&] {
    std::vector<int64_t> equal_splits;
    parts_->group->alltoall_base(output, input, equal_splits, equal_splits)->wait();
  });
}

void Group::ReduceScatter(at::Tensor output, at::Tensor input) {
  if (size() == 1) {
    output.copy_(input);
    return;
  }
  Collective("sum of parts over the ranks",
             [&] { parts_->group->_reduce_scatter_base(output, input)->wait(); });
}

void Group::Gather(at::Tensor output, at::Tensor input) {
  if (size() == 1) {
    output.copy_(input);
    return;
  }
  Collective(kGathering, [&] { parts_->group->_allgather_base(output, input)->wait(); });
}

void Group::CopyFromFirst(const std::vector<at::Tensor>& tensors) {
  if (size() == 1 || tensors.empty()) return;
  Collective(absl::StrCat("copy from rank ", ranks_.front()), [&] {
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> detached;
    for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
    c10d::broadcast_coalesced(parts_->group, detached, kBroadcastBytes, /*rank=*/0);
  });
}

void Group::Send(at::Tensor tensor, int to) {
  Collective("sending to a rank", [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    parts_->group->send(tensors, to, /*tag=*/0)->wait();
  });
}

void Group::Receive(at::Tensor tensor, int from) {
  Collective("receiving from a rank", [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    parts_->group->recv(tensors, from, /*tag=*/0)->wait();
  });
}

void Group::Barrier() {
  if (size() > 1) Collective("barrier", [&] { parts_->group->barrier()->wait(); });
}

void Group::Abort() {
  if (size() == 1) return;
  parts_->aborted = true;
  parts_->backend->abort();
}

const c10::intrusive_ptr<ProcessGroup>& Group::torch_group() const { return parts_->group; }

}  // namespace paceline
