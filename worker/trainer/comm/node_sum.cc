#include "worker/trainer/comm/node_sum.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "absl/status/statusor.h"

namespace paceline {
namespace {

constexpr int64_t kReportedNumbers = 4;  // Per member: node, and its memory's address.

// Opens the memory of the node's first member and takes this member's place in it.
absl::StatusOr<SharedMemory> Enter(absl::StatusOr<SharedMemory> own,
                                   const SharedMemory::Address& address, int place) {
  absl::StatusOr<SharedMemory> memory =
      place == 0 ? std::move(own) : SharedMemory::Open(address, SharedSum::kBytes);
  if (!memory.ok()) return memory;
  const absl::Status taken = memory->TakePlace(place);
  if (!taken.ok()) return taken;
  return memory;
}

}  // namespace

std::unique_ptr<NodeSum> NodeSum::Join(Group& all, uint64_t node, const MakeLeaders& make_leaders) {
  absl::StatusOr<SharedMemory> own = SharedMemory::Make(SharedSum::kBytes);
  const SharedMemory::Address address = own.ok() ? own->address() : SharedMemory::Address();
  at::Tensor reported = at::empty({all.size() * kReportedNumbers}, at::kLong);
  all.Gather(reported, at::tensor({static_cast<int64_t>(node), address.process, address.file,
                                   address.token}));
  const auto* const numbers = reported.const_data_ptr<int64_t>();
  std::map<int64_t, std::vector<int>> nodes;
  for (int member = 0; member < all.size(); ++member) {
    nodes[numbers[member * kReportedNumbers]].push_back(member);
  }
  if (static_cast<int>(nodes.size()) == all.size()) return nullptr;

  const std::vector<int>& members = nodes[static_cast<int64_t>(node)];
  const int self = all.torch_group()->getRank();
  const auto place =
      static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
  const int64_t* const first = numbers + members.front() * kReportedNumbers;
  absl::StatusOr<SharedMemory> memory =
      Enter(std::move(own), {first[1], first[2], first[3]}, place);
  const at::Tensor failed = at::full({1}, memory.ok() ? 0 : 1, at::kLong);
  all.Sum(failed);  // When all have opened it, the first member's own handle may go.
  if (failed.item<int64_t>() > 0) return nullptr;

  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(all.ranks()[static_cast<size_t>(member)]);
  std::unique_ptr<NodeSum> sum(
      new NodeSum(*std::move(memory), place, std::move(ranks), nodes.size() == 1));
  if (nodes.size() > 1 && place == 0) {
    std::vector<int> leaders;
    for (const auto& each : nodes) {
      leaders.push_back(all.ranks()[static_cast<size_t>(each.second.front())]);
    }
    std::sort(leaders.begin(), leaders.end());
    sum->leaders_ = make_leaders(leaders);
  }
  return sum;
}

bool NodeSum::Takes(const at::Tensor& tensor) {
  const bool has_type = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  return has_type && tensor.is_cpu() && tensor.is_contiguous();
}

template <typename T>
void NodeSum::SumWith(SumOfGroup of_leaders, const at::Tensor& tensor) {
  SharedSum::OverNodes<T> over_nodes;
  if (!is_alone_) {
    over_nodes = [&](T* sums, size_t count) {
      (leaders_.get()->*of_leaders)(
          at::from_blob(sums, {static_cast<int64_t>(count)}, tensor.scalar_type()));
    };
  }
  shared_.Sum(tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel()), over_nodes);
}

void NodeSum::Sum(SumOfGroup of_leaders, const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) {
    SumWith<float>(of_leaders, tensor);
  } else {
    SumWith<double>(of_leaders, tensor);
  }
}

}  // namespace paceline
