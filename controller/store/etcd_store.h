// StateStore in etcd, for the one controller that leads.
//
// Under the prefix, by default /paceline:
//
//   leader         who leads (controller/election/election.h); its create_revision is the term
//   format         version of this layout
//   sequence       TERM/NUMBER of the newest transaction
//   state/KEY      the first 512 KiB of a value
//   more/KEY/N     its further parts, N = 00000001, ...
//   journal/...    a batch that is too large for one transaction, while it is carried out
//
// Every transaction makes two compares. The leader's key must still be of this term, so that etcd
// itself refuses the writes of a deposed leader. And the sequence must be where this store left it,
// so that a transaction that was retried because no answer came is carried out only once, even if
// others have followed since.
//
// A batch above etcd's limits (128 operations, 1.5 MiB per request) is first written to the
// journal. It counts as committed once journal/complete exists; Open finishes such a batch.
//
// Commit returns Aborted when the term is over. SizeBytes may be called from any thread.
#ifndef CONTROLLER_STORE_ETCD_STORE_H_
#define CONTROLLER_STORE_ETCD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/store/etcd_client.h"
#include "controller/store/state_store.h"
#include "etcd/rpc.pb.h"

namespace paceline {

// Returns the key whose create_revision is the leader's term.
std::string EtcdLeaderKey(const std::string& prefix);

class EtcdStore : public StateStore {
 public:
  // `client` outlives the store. `term`: create_revision of EtcdLeaderKey. Errors: Aborted: the
  // term is over; OutOfRange: written by a newer version; DataLoss: damaged or not ours; and those
  // of EtcdClient.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> Open(EtcdClient* client,
                                                         const std::string& prefix, int64_t term,
                                                         EtcdClient::Patience patience = {});

  absl::Status Commit(const WriteBatch& batch) override;
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) override;
  int64_t SizeBytes() override;

 private:
  using Operations = std::vector<etcdserverpb::RequestOp>;

  EtcdStore(EtcdClient* client, const std::string& prefix, int64_t term,
            EtcdClient::Patience patience);

  absl::Status Initialize();
  absl::Status CheckFormat();
  absl::Status FinishJournal();
  absl::Status FindParts();

  void AddPut(const std::string& key, absl::string_view value, Operations& operations);
  void AddDelete(const std::string& key, Operations& operations);
  void SetParts(const std::string& key, size_t parts, Operations& operations);
  // Writes one transaction. Requires: it is within etcd's limits.
  absl::Status Write(const Operations& operations);
  absl::Status Refused(const etcdserverpb::TxnResponse& response, const std::string& mine);
  // Writes as many transactions as it takes.
  absl::Status WriteAll(const Operations& operations);
  absl::Status WriteThroughJournal(const Operations& operations);
  // Reads all keys that begin with `prefix`, in order. Pages fit together, as nobody else writes.
  absl::StatusOr<std::vector<mvccpb::KeyValue>> ReadAll(const std::string& prefix,
                                                        bool keys_only = false);

  EtcdClient* const client_;
  const std::string prefix_;
  const int64_t term_;
  const EtcdClient::Patience patience_;
  int64_t number_ = 0;                   // Of the newest transaction of this term.
  int64_t sequence_revision_ = 0;        // Revision that wrote the sequence; 0: none.
  std::map<std::string, size_t> parts_;  // Parts of values with more than one.
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_ETCD_STORE_H_
