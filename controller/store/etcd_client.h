// Calls to the members of an etcd cluster, each with a deadline.
//
// A call goes to the member that answered last; if that one is away, slow or without a leader, it
// goes to the next, until the call's patience is over. So a call may be carried out more than once,
// even after it has ended with an error: writers must state by compares what their write may
// follow.
//
// Errors: Unavailable: no member answered in time; Cancelled: after Cancel; other errors as etcd
// reports them (ResourceExhausted: its quota is used up; PermissionDenied, Unauthenticated). All
// name the members.
//
// Thread-safe.
#ifndef CONTROLLER_STORE_ETCD_CLIENT_H_
#define CONTROLLER_STORE_ETCD_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace etcdserverpb {
class RangeRequest;
class RangeResponse;
class TxnRequest;
class TxnResponse;
}  // namespace etcdserverpb

namespace grpc {
class ChannelCredentials;
class ClientContext;
class Status;
}  // namespace grpc

namespace paceline {

class EtcdClient {
 public:
  struct Options {
    std::vector<std::string> endpoints;  // HOST:PORT of the members' client URLs.
    // Holds ca.pem, cert.pem and key.pem: tls/credentials.h. Empty: without TLS.
    std::string tls_dir;
  };

  // Time limits of a call: in all, and per member.
  struct Patience {
    absl::Duration limit = absl::Seconds(10);
    absl::Duration attempt = absl::Seconds(1);
  };

  // Connects at the first call. InvalidArgument if an endpoint is malformed, or reached over a
  // network without TLS; NotFound or PermissionDenied, naming the file, if a TLS file cannot be
  // read.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(const Options& options);
  ~EtcdClient();

  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    Patience patience);
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                Patience patience);

  struct Lease {
    int64_t id = 0;
    absl::Duration length;  // As granted by etcd.
  };
  absl::StatusOr<Lease> GrantLease(absl::Duration length, Patience patience);
  // Renews the lease. Returns its new length, counted from when etcd got the call; zero: it has
  // expired.
  absl::StatusOr<absl::Duration> KeepLeaseAlive(int64_t lease, Patience patience);
  // Also deletes the keys of the lease.
  absl::Status RevokeLease(int64_t lease, Patience patience);

  // Waits until `key` is deleted in a revision after `revision`, or `limit` is over, or the watch
  // breaks; then the caller looks again. Returns false if it broke, perhaps at once.
  bool WaitForDeletion(const std::string& key, int64_t revision, absl::Duration limit);

  // Size of a member's database, which all users of this etcd share.
  absl::StatusOr<int64_t> DatabaseBytes(Patience patience);

  // Ends all present and future calls.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Member;
  class Running;
  using Call = std::function<grpc::Status(Member&, grpc::ClientContext*)>;

  explicit EtcdClient(const std::vector<std::string>& endpoints,
                      const std::shared_ptr<grpc::ChannelCredentials>& credentials);

  absl::Status Try(Patience patience, const Call& call);
  // Moves on from `member`, unless another call has already done so.
  void Leave(size_t member);
  // Waits a moment. Returns true after Cancel.
  bool Pause() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name_;                        // For error messages.
  std::vector<std::unique_ptr<Member>> members_;  // Constant.
  std::atomic<size_t> member_{0};                 // Index of the member that calls go to.

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_ETCD_CLIENT_H_
