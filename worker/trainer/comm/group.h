// The ranks of a generation, or some of them, connected, and the few collectives that
// training needs.
//
// They meet in a store: each trainer serves one, and the controller names the one to use.
// All members must call the same methods in the same order. A failed or late collective
// throws CollectiveError; the group is unusable from then on.
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

// A key-value store on a free port of an interface, a device or an address, for as long as it
// lives; empty: of all interfaces. Whoever connects is believed: what a generation keeps there lies
// under its secret (Groups).
class StoreServer {
 public:
  // Throws std::runtime_error when it cannot listen there.
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

  // Global ranks, ascending, this rank's among them.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Replaces `tensor` on every member by the sum over the members. A member that is alone
  // changes nothing; so below.
  void Sum(at::Tensor tensor);

  // The same on a device, and when it returns the sum is there. (After Sum it may be on its way;
  // and a collective that is broken off, here or by a timeout, looks finished on the device.)
  // `wait` blocks until the calling thread's stream has done what it was given. That another member
  // has broken off its part is not seen: its half may even have posted what it never wrote. Who
  // must be sure asks afterwards, in a way that such a member cannot answer.
  void SumOnDevice(at::Tensor tensor, const std::function<void()>& wait);

  // The same for a few numbers [n] on the host, by way of the first member: two messages for each
  // of the others, where Sum's ring needs as many as twice the members. All get the same bits.
  void SumFew(at::Tensor tensor);

  // Member m's j-th part of `input` becomes the m-th part of member j's `output`: both are
  // flat and have one part of the same size for each member.
  void ExchangeParts(at::Tensor output, at::Tensor input);

  // `output` becomes the `input` of all members, one after the other. Both are flat.
  void Gather(at::Tensor output, at::Tensor input);

  // Replaces the tensors, equal in shape on all members, by those of the first member.
  void CopyFromFirst(const std::vector<at::Tensor>& tensors);

  // One member's `tensor` becomes that of another one, who calls Receive meanwhile. Members are
  // numbered within the group.
  void Send(at::Tensor tensor, int to);
  void Receive(at::Tensor tensor, int from);

  // Returns when all members have called it.
  void Barrier();

  // For torch's own algorithms. Null for a member that is alone.
  const c10::intrusive_ptr<c10d::ProcessGroup>& torch_group() const;

 private:
  friend class Groups;
  struct Parts;
  Group(std::vector<int> ranks, std::unique_ptr<Parts> parts);

  const std::vector<int> ranks_;
  std::unique_ptr<Parts> parts_;
};

// Makes the groups of this rank. A group lives as long as somebody holds it, all() as long as
// this.
//
// Thread-safe, so that a thread may make the groups of the next plan while another trains. A
// group itself may be used by one thread at a time. Copies are the same; the last one closes all().
class Groups {
 public:
  // Makes the group of all ranks: meets the others in the store at `store_address`
  // ("host:port/secret", what is kept there lies under the secret; or "host:port") within the
  // configuration's startup timeout, which is also that of the collectives until SetTimeout. A rank
  // that is alone needs no store. `platform` outlives this.
  Groups(Platform& platform, const TrainerConfig& config, c10::Device device,
         const std::string& store_address);
  Groups(const Groups& other);
  Groups& operator=(const Groups&) = delete;
  ~Groups();

  Group& all();

  // A new group of these ranks (ascending, this one among them) for `use` ("gradients",
  // "parameters", ...); all() if these are all ranks. Each member must call it with the same
  // epoch of a plan, and only once: they meet under these names, so that none meets one that
  // still tries an epoch before. Blocks until they have, at most for the startup timeout; who
  // lets go of the group before the others are connected fails them.
  std::shared_ptr<Group> Make(const std::vector<int>& ranks, const std::string& use, int64_t epoch);

  // A new group of all ranks, apart from all(), so that a thread has one to itself. Else as Make.
  enum class Traffic {
    kOnHost,         // Tensors of the host, on whatever device the ranks train.
    kOnDevice,       // Overtakes what else the device does.
    kBesideTraining  // The same, on a few channels: most of the device goes on computing.
  };
  std::shared_ptr<Group> MakeOfAll(const std::string& use, int64_t epoch, Traffic traffic);

  // The time that each later collective of any group may take, also of those made later.
  void SetTimeout(absl::Duration timeout);

  // From now on a use of the store throws, and does not connect with it again. Any thread. (A use
  // that is under way ends with its connection.)
  void EndStore();

  // Ends the collectives of all groups that are under way: they throw. Any thread. (On a CPU, those
  // that have not ended by themselves when their connections were shut down: connections.h.)
  void Abort();

  // For tensors that the groups exchange.
  Int8Codec& int8_codec();

  // A word to all ranks, which stays; and whether some rank has said it. Any thread. Throws
  // CollectiveError when the store is gone.
  void Say(const std::string& word);
  bool WasSaid(const std::string& word);

  // What rank 0 passes, on every rank. Collective; at most once per `key`.
  std::string ShareFromRankZero(const std::string& key, const std::string& value);

  // The greatest of the values that all ranks pass, each at most once per `key`; nothing, on every
  // rank alike, when one has waited for `timeout` and not all had come: the store keeps what was
  // decided first. Any thread. Throws CollectiveError when the store is gone.
  std::optional<int64_t> GreatestOfAll(const std::string& key, int64_t value,
                                       absl::Duration timeout);

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GROUP_H_
