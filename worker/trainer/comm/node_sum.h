// Sums over a group whose members on the same node share memory (shared_sum.h).
//
// The first member of each node is its leader. The leaders form a group of their own, in which they
// add up the nodes' sums.
//
// Used by one thread, except Close and SetTimeout: any thread.
#ifndef WORKER_TRAINER_COMM_NODE_SUM_H_
#define WORKER_TRAINER_COMM_NODE_SUM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/shared_sum.h"

namespace paceline {

class NodeSum {
 public:
  // Makes the group of `ranks`, which include this one.
  using MakeLeaders = std::function<std::shared_ptr<Group>(const std::vector<int>& ranks)>;

  // Collective over `all`, which exchanges host tensors. Members with the same `node` share memory.
  // Returns null on all members when no two are on the same node, or some node cannot share memory.
  static std::unique_ptr<NodeSum> Join(Group& all, uint64_t node, const MakeLeaders& make_leaders);

  // Whether it can sum such a tensor: contiguous float32 or float64 on the host.
  static bool Takes(const at::Tensor& tensor);

  using SumOfGroup = void (Group::*)(at::Tensor);
  // Replaces the tensor by its sum over the members; leaders use `of_leaders` among themselves.
  // Requires: Takes(tensor). Throws std::runtime_error on failure.
  void Sum(SumOfGroup of_leaders, const at::Tensor& tensor);

  void SetTimeout(absl::Duration timeout) { shared_.SetTimeout(timeout); }
  void Close() { shared_.Close(); }

 private:
  NodeSum(SharedMemory memory, int place, std::vector<int> ranks, bool is_alone)
      : shared_(std::move(memory), place, std::move(ranks)), is_alone_(is_alone) {}
  template <typename T>
  void SumWith(SumOfGroup of_leaders, const at::Tensor& tensor);

  SharedSum shared_;
  const bool is_alone_;             // There is no other node.
  std::shared_ptr<Group> leaders_;  // Null unless this is a leader.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_NODE_SUM_H_
