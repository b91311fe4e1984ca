// The ranks of a generation, connected, and the few collectives that training needs.
//
// They meet in a store: each trainer serves one, and the controller names the one to use.
// All ranks must call the same methods in the same order. A failed or late collective throws
// CollectiveError; the group is unusable from then on.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_COMM_GROUP_H_
#define WORKER_TRAINER_COMM_GROUP_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace paceline {

class CollectiveError : public std::runtime_error {
 public:
  // `what` of `collective`, without the source position that the library puts in front.
  CollectiveError(absl::string_view collective, absl::string_view what);
};

// A key-value store on a free port of all interfaces, for as long as it lives.
class StoreServer {
 public:
  StoreServer();
  ~StoreServer();
  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

class Group {
 public:
  // Meets the other ranks in the store at `store_address` ("host:port") within `timeout`,
  // which is also that of the collectives until SetTimeout. A rank that is alone needs no
  // store: all its collectives do nothing.
  Group(Platform& platform, const TrainerConfig& config, c10::Device device,
        const std::string& store_address, absl::Duration timeout);
  ~Group();

  int size() const { return size_; }

  // The time that each later collective may take.
  void SetTimeout(absl::Duration timeout);

  // Replaces `tensor` on every rank by the sum over the ranks.
  void Sum(at::Tensor tensor);

  // Replaces the tensors, equal in shape on all ranks, by those of rank 0.
  void CopyFromRankZero(const std::vector<at::Tensor>& tensors);

  // Returns when all ranks have called it.
  void Barrier();

  // For torch's own algorithms. Null for a rank that is alone.
  const c10::intrusive_ptr<c10d::ProcessGroup>& torch_group() const;

 private:
  struct Parts;

  const int size_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GROUP_H_
