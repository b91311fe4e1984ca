// A connected group of all or some ranks of a generation, with the few collectives that training
// needs.
//
// The ranks meet in a store: each trainer serves one, and the controller says which one to use. All
// members must call the same methods in the same order. A failed or late collective throws
// CollectiveError; the group is then unusable.
#ifndef WORKER_TRAINER_COMM_GROUP_H_
#define WORKER_TRAINER_COMM_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace paceline {

class CollectiveError : public std::runtime_error {
 public:
  // `what` of `collective`, without the source position that torch prepends.
  CollectiveError(absl::string_view collective, absl::string_view what);
};

// A key-value store on a free port of `interface` (a device or an address; empty: all) for as long
// as it lives. It trusts everybody who connects, so a generation keeps its data under a secret
// prefix (Groups).
class StoreServer {
 public:
  // Throws std::runtime_error when it cannot listen on the interface.
  explicit StoreServer(const std::string& interface = "");
  ~StoreServer();
  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Thread-compatible.
class Group {
 public:
  ~Group();

  // Global ranks in ascending order, including this one.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Replaces `tensor` on each member by the sum over all members. This and the methods below do
  // nothing in a group of one.
  void Sum(at::Tensor tensor);

  // Like Sum on a device, but the sum is ready on return. (After Sum it may still be under way, and
  // an aborted or timed out collective looks finished on the device.) `wait` must block until the
  // calling thread's stream has done its work. It does not notice that another member aborted its
  // part, and such a member may have sent garbage. To be sure, ask afterwards in a way that such a
  // member cannot answer.
  void SumOnDevice(at::Tensor tensor, const std::function<void()>& wait);

  // Begins a sum that goes on by itself; `tensor` may not be used meanwhile. The function that it
  // returns waits until the sum is ready, and throws if it failed; call it at most once, while the
  // group lives. A sum that nobody waits for ends with its group.
  std::function<void()> BeginSum(at::Tensor tensor);
  // The same for ExchangeParts and Gather.
  std::function<void()> BeginExchangeParts(at::Tensor output, at::Tensor input);
  std::function<void()> BeginGather(at::Tensor output, at::Tensor input);

  // Sums a few numbers [n] on the host through the first member: two messages per other member,
  // where Sum's ring needs up to twice the members. All get the same bits.
  void SumFew(at::Tensor tensor);

  // Copies member m's j-th part of `input` to the m-th part of member j's `output`. Both are flat,
  // with one part of equal size for each member.
  void ExchangeParts(at::Tensor output, at::Tensor input);

  // Sums the members' `input`, of which member m gets the m-th part. Both are flat; `input` has a
  // part of the size of `output` for each member.
  void ReduceScatter(at::Tensor output, at::Tensor input);

  // Concatenates the members' `input` in `output`. Both are flat.
  void Gather(at::Tensor output, at::Tensor input);

  // Overwrites the tensors, which have equal shapes on all members, with the first member's.
  void CopyFromFirst(const std::vector<at::Tensor>& tensors);

  // Sends `tensor` to another member, which must call Receive. Members are numbered within the
  // group.
  void Send(at::Tensor tensor, int to);
  void Receive(at::Tensor tensor, int from);

  // Returns when all members have called it.
  void Barrier();

  // Ends the collectives under way: they throw. Any thread.
  void Abort();

  // For torch's own algorithms. Null in a group of one.
  const c10::intrusive_ptr<c10d::ProcessGroup>& torch_group() const;

 private:
  friend class Groups;
  struct Parts;
  Group(std::vector<int> ranks, std::unique_ptr<Parts> parts);

  const std::vector<int> ranks_;
  std::unique_ptr<Parts> parts_;
};

// Begin of the use of a group for copies of states (Groups::Make); the sender's rank follows.
inline constexpr char kCopyUse[] = "copies-of-";

// Use of a group for averages that go on beside the training.
inline constexpr char kStreamUse[] = "stream";

// Makes this rank's groups. A group lives as long as somebody holds it; all() lives as long as
// this.
//
// Thread-safe, so that one thread can make the next plan's groups while another trains. Each group
// may be used by one thread at a time. Copies share the same state; the last one closes all().
class Groups {
 public:
  // Makes the group of all ranks, which meet in the store at `store_address`: "host:port", or
  // "host:port/secret" with the prefix of all keys. The configuration's startup timeout limits
  // this, and also collectives until SetTimeout. A rank that is alone needs no store. `platform`
  // must outlive this.
  Groups(Platform& platform, const TrainerConfig& config, c10::Device device,
         const std::string& store_address);
  Groups(const Groups& other);
  Groups& operator=(const Groups&) = delete;
  ~Groups();

  Group& all();

  // Makes a group of `ranks` (ascending, including this one) for `use` ("gradients", "parameters",
  // ...; a "word" is on the host); returns all() if these are all ranks. One whose use begins with
  // kCopyUse is on the host, and for a thread of its own: it is never all(); nor is one for
  // kStreamUse, which uses little of the device. Each member must call it once with the same plan
  // version (for copies: number of the connection): use and version name the rendezvous, so that
  // nobody meets a member that still tries an earlier one. Blocks until all have met, at most for
  // the startup timeout. A member that drops the group before the others are connected makes them
  // fail.
  std::shared_ptr<Group> Make(const std::vector<int>& ranks, const std::string& use,
                              int64_t version);

  // Makes another group of all ranks, so that a thread has its own. Otherwise like Make.
  enum class Traffic {
    kOnHost,         // Host tensors, whatever the device.
    kOnDevice,       // Takes priority over other work of the device.
    kBesideTraining  // The same on few channels: most of the device keeps computing.
  };
  std::shared_ptr<Group> MakeOfAll(const std::string& use, int64_t version, Traffic traffic);

  // Makes a group of two, of host tensors, who meet in the store beside the groups of a generation,
  // of which they need not be members: the one that `config` says. `use` tells which two they are,
  // `number`, 0 or 1, which of them this is. It has the startup timeout, and blocks like Make.
  // `platform` must outlive the group.
  static std::shared_ptr<Group> MakePair(Platform& platform, const TrainerConfig& config,
                                         const std::string& store_address, const std::string& use,
                                         int number);

  // Sets the time limit of each later collective in all groups, including future ones.
  void SetTimeout(absl::Duration timeout);

  // Makes later uses of the store throw instead of connecting again. Any thread. (A use that is
  // under way ends when its connection does.)
  void EndStore();

  // Ends the collectives under way in all groups: they throw. Any thread. (On a CPU, this is for
  // those that survive the shutdown of their connections: connections.h.)
  void Abort();

  // Whether a collective of a group that somebody holds, other than one for copies, has failed or
  // was aborted: an error of another kind may come from that. With Gloo it is known before anybody
  // gets the error. Any thread.
  bool has_failed() const;

  // The codec for tensors that the groups exchange.
  RowCodec& row_codec();

  // The connections of all groups of this process.
  OwnConnections& connections();

  // Publishes a word to all ranks for good; WasSaid tells whether any rank has said it. Any thread.
  // Throws CollectiveError when the store is gone.
  void Say(const std::string& word);
  bool WasSaid(const std::string& word);

  // Returns rank 0's `value` on all ranks. Collective; at most once per `key`.
  std::string ShareFromRankZero(const std::string& key, const std::string& value);

  // Returns the greatest of all ranks' values; each rank calls it at most once per `key`. Returns
  // nothing, on all ranks alike, when one has waited for `timeout` and some were missing: the store
  // keeps the first decision. Any thread. Throws CollectiveError when the store is gone.
  std::optional<int64_t> GreatestOfAll(const std::string& key, int64_t value,
                                       absl::Duration timeout);

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GROUP_H_
