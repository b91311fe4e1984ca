// Sums over a group, of which the members on one node share memory (shared_sum.h).
//
// The first member of each node is its leader; leaders have a group of their own, in which they add
// up the sums of the nodes.
//
// One thread, but for Close and SetTimeout: any thread.
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
  // Makes the group of these ranks, of which this is one.
  using MakeLeaders = std::function<std::shared_ptr<Group>(const std::vector<int>& ranks)>;

  // Collective over `all`, which exchanges tensors of the host. Members with the same `node` share
  // memory. Null, on all members: no two of them are on one node, or on some node they cannot.
  static std::unique_ptr<NodeSum> Join(Group& all, uint64_t node, const MakeLeaders& make_leaders);

  // Whether it sums tensors like this one: contiguous float32 or float64 on the host.
  static bool Takes(const at::Tensor& tensor);

  using SumOfGroup = void (Group::*)(at::Tensor);
  // Replaces the tensor by its sum over the members; leaders use `of_leaders` between them.
  // Requires: Takes(tensor). Failures throw std::runtime_error.
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
  std::shared_ptr<Group> leaders_;  // Of a leader.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_NODE_SUM_H_
