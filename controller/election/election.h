// Elects the controller that leads, by a lease in etcd.
//
//              nobody leads            elected
//   STANDBY -------------> CAMPAIGN -----------> LEADER ---> deposed: for good
//     ^                        |                             the lease is not renewed in time,
//     +--- somebody was first -+                             or etcd says that it has run out
//
// The leader is the controller that has made the key PREFIX/leader, which vanishes with the
// leader's lease. Its value is the leader's address, its create_revision the term: terms are
// unique, and later leaders have higher ones. A leader renews its lease every third of its length,
// and does not act beyond the lease's end (controller/core/leader_lease.h); if it writes
// nevertheless, etcd refuses it (controller/store/etcd_store.h).
//
// Thread-safe. A thread of its own calls the observer.
#ifndef CONTROLLER_ELECTION_ELECTION_H_
#define CONTROLLER_ELECTION_ELECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "controller/core/leader_lease.h"
#include "controller/store/etcd_client.h"

namespace paceline {

class Election {
 public:
  struct Options {
    std::string prefix;   // The same as the store's.
    std::string address;  // HOST:PORT at which clients reach this controller.
    // After this long without a renewal another controller takes over. etcd's minimum is 2 s.
    absl::Duration lease = absl::Seconds(3);
  };

  struct Observer {
    // Called when the known leader changes; empty: nobody leads, or etcd does not answer.
    std::function<void(const std::string& address)> follows;
    std::function<void(int64_t term)> elected;
    // Called once, after `elected`: this controller must no longer act. `why` is for people.
    std::function<void(const std::string& why)> deposed;
  };

  // Begins. `client` is used by this election only, and outlives it.
  Election(EtcdClient* client, Options options, Observer observer);
  // Gives up the leadership, so that another controller can lead at once.
  ~Election();
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Whether this controller leads, by its own clock. From any thread.
  bool MayAct() const;

 private:
  struct LeaderRecord {
    std::string address;  // Empty: nobody leads.
    int64_t lease = 0;
    int64_t term = 0;
    int64_t revision = 0;  // etcd's revision at that moment.
  };

  void Run();
  absl::StatusOr<LeaderRecord> Look();
  void Campaign();
  void LoseCampaign(const absl::Status& why);
  void Lead(int64_t term);
  void Renew(LeaderLease& lease);
  void Tell(const std::string& leader);
  // Returns false when the election is to end.
  bool WaitUntil(absl::Time time) ABSL_LOCKS_EXCLUDED(mutex_);

  EtcdClient* const client_;
  const Options options_;
  const Observer observer_;
  const std::string key_;

  // On the thread.
  int64_t lease_ = 0;      // 0: none.
  absl::Time lease_sent_;  // When it was asked for, by BootNow.
  absl::Duration lease_length_;
  std::string reported_;        // The leader last reported.
  bool unreachable_ = false;    // etcd does not answer.
  bool campaign_lost_ = false;  // Nobody leads, and etcd does not let this controller lead.
  bool deposed_ = false;

  std::atomic<int64_t> end_ns_{0};  // End of the lease, by BootNow; 0: not leading.

  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_ELECTION_ELECTION_H_
